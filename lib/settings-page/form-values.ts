import { isStorable } from '../base/fields.ts'
import type { FormFields } from '../http/body.ts'

/** Returns the first value of a field, trimmed; an empty string if absent. */
export function textOf(form: FormFields, name: string): string {
  return form.get(name)?.[0]?.trim() ?? ''
}

/** Returns the text if it could be an ID, otherwise an empty string. */
export function readId(text: string): string {
  return /^\w{1,64}$/.test(text) ? text : ''
}

/** Returns the text if it could be an ID chosen by the host, such as an event or request ID; otherwise `null`. */
export function readForeignId(text: string | null): string | null {
  return text !== null && text !== '' && text.length <= 64 && isStorable(text) ? text : null
}

/** Returns whether any field of the filter is set. */
export function isFiltered(filter: object): boolean {
  return Object.values(filter).some((value) => value !== '')
}

/** Returns all values of a field. */
export function textsOf(form: FormFields, name: string): readonly string[] {
  return form.get(name) ?? []
}

/** Parses a count from a hidden field; returns 0 if invalid. */
export function numberOf(text: string): number {
  return /^\d{1,9}$/.test(text) ? Number(text) : 0
}

/** Returns the field's value if it is one of `choices`, otherwise `null`. */
export function choiceOf<Choice extends string>(
  form: FormFields,
  name: string,
  choices: readonly Choice[],
): Choice | null {
  const value = textOf(form, name)
  return choices.find((choice) => choice === value) ?? null
}
