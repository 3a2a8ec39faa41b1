/**
 * Makes `instanceof` hold for instances of another copy of this package, for example one that a bundler or another
 * package brought along. The host may throw or return them to this copy.
 *
 * @param name the class's name, because a minifier changes `type.name`
 */
export function shareInstances(type: { readonly prototype: object }, name: string): void {
  const brand = Symbol.for(`business-api-kit:${name}`)
  Object.defineProperty(type.prototype, brand, { value: true })
  Object.defineProperty(type, Symbol.hasInstance, {
    value(this: unknown, given: unknown): boolean {
      const { [brand]: isBranded = false } = Object(given)
      // A host's subclass inherits this, but has only its own instances.
      return this === type ? isBranded : Function.prototype[Symbol.hasInstance].call(this as never, given)
    },
  })
}
