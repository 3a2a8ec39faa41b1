import { isStorable } from '../base/fields.ts'
import type { FormFields } from '../http/body.ts'

/** Returns the first value of a field without surrounding white space; empty when absent. */
export function textOf(form: FormFields, name: string): string {
  return form.get(name)?.[0]?.trim() ?? ''
}

/** Returns a text that can be an id, else an empty text. */
export function readId(text: string): string {
  return /^\w{1,64}$/.test(text) ? text : ''
}

/** Returns a text that can be an id of a host's own, as of an event or a request, else null. */
export function readForeignId(text: string | null): string | null {
  return text !== null && text !== '' && text.length <= 64 && isStorable(text) ? text : null
}

/** Returns whether a filter has any value. */
export function isFiltered(filter: object): boolean {
  return Object.values(filter).some((value) => value !== '')
}

/** Returns all values of a field. */
export function textsOf(form: FormFields, name: string): readonly string[] {
  return form.get(name) ?? []
}

/** Reads a count of a hidden field; 0 for anything else. */
export function numberOf(text: string): number {
  return /^\d{1,9}$/.test(text) ? Number(text) : 0
}

/** Returns the value of a field if `choices` has that value, else null. */
export function choiceOf<Choice extends string>(
  form: FormFields,
  name: string,
  choices: readonly Choice[],
): Choice | null {
  const value = textOf(form, name)
  return choices.find((choice) => choice === value) ?? null
}
