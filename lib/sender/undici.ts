/**
 * Loads undici on demand, because most hosts never need undici. The name stands in a plain `import()`: bundlers and tracers of
 * files (webpack, Turbopack, esbuild, Next.js' standalone output) include only modules with a literal name.
 *
 * @throws Error when undici is not installed
 */
export async function loadUndici(): Promise<typeof import('undici')> {
  try {
    return await import('undici')
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(
      `undici cannot be loaded: ${reason}: install the dependencies of business-api-kit; ` +
        'a bundle must include undici, or exclude business-api-kit as a whole',
      { cause },
    )
  }
}
