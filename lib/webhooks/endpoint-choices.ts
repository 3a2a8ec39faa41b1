import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { type Column, columnsOf, type NamedColumn } from '../resources/columns.ts'
import { URL_MAX_LENGTH } from './destination.ts'
import { MAX_PER_SECOND_BOUNDS } from './endpoint-rate.ts'

// The endpoint settings an organization can choose. Types, inputs, columns, privileges, comparisons and displays are
// all derived from this list.

// --- Inputs ---

const UrlSchema = v.pipe(
  field.text(1, URL_MAX_LENGTH),
  // URL parsers silently strip these, so the log would show a different URL.
  v.check((url) => !/[\s\p{Cc}]/u.test(url), 'must not contain white space or control characters'),
  // Store the normalized URL because the log shows where requests go. For example, http:h.example
  // becomes http://h.example/.
  v.transform((url) => (URL.canParse(url) ? new URL(url).href : url)),
  field.text(1, URL_MAX_LENGTH),
)
const { min, max } = MAX_PER_SECOND_BOUNDS
const rateRequirement = `must be null, or a number from ${min} to ${max}`
const MaxPerSecondSchema = v.nullable(
  v.pipe(v.number(rateRequirement), v.minValue(min, rateRequirement), v.maxValue(max, rateRequirement)),
)

// --- The list ---

interface Choice extends Column {
  readonly input: v.GenericSchema
  /** The default for new endpoints. If missing, a value is required. */
  readonly initial?: unknown
  /** If `true`, attempts need this value. Such values are returned by the SQL function `endpoint_target`. */
  readonly isSent?: true
}

/** All choices, in the order used in `details.fields` of audit entries. */
export const CHOICES = {
  /** The endpoint's URL. Must be https and public, on port 443 or at least 1024. Checked again before each attempt. */
  url: { input: UrlSchema, isSent: true },
  /**
   * Event types to send (at least one, no duplicates), or `null` for all types including future ones. The calls check
   * that the types exist.
   */
  types: { input: v.nullable(v.array(v.string())), type: 'text[]', initial: null },
  /** Free-form description, up to 200 characters. Can be empty. */
  description: { input: field.text(0, 200), initial: '' },
  /**
   * If `true`, requests include the Standard Webhooks headers as well, signed with the same secret. Rejected if
   * Standard Webhooks can't decode the secret. In that case, rotate the secret first. New endpoints default to `false`.
   */
  standardWebhooks: {
    input: v.boolean('must be true or false'),
    type: 'boolean',
    initial: false,
    isSent: true,
  },
  /**
   * Maximum number of deliveries per second across all processes, from 0.01 to 1,000, or `null` for no limit. Only
   * set this if you know the receiver's limit. By default, limits are learned from rejections. New endpoints default
   * to `null`.
   */
  maxPerSecond: { input: MaxPerSecondSchema, type: 'float8', initial: null },
} as const satisfies Readonly<Record<string, Choice>>

type Choices = typeof CHOICES

/**
 * The endpoint settings an organization can choose.
 *
 * @typeParam Type defaults to `string`, because other versions of the host may have more types
 */
export type EndpointChoices<Type extends string = string> = {
  readonly [Field in keyof Choices]: Field extends 'types'
    ? readonly Type[] | null
    : v.InferOutput<Choices[Field]['input']>
}

/** The columns of {@link EndpointChoices}. */
export const ENDPOINT_CHOICES: readonly NamedColumn[] = columnsOf({ columns: CHOICES })

/** Defaults for new endpoints. */
export const ENDPOINT_DEFAULTS: Omit<EndpointChoices, 'url'> = Object.fromEntries(
  Object.entries<Choice>(CHOICES).flatMap(([name, { initial }]) =>
    initial === undefined ? [] : [[name, initial]],
  ),
) as object as Omit<EndpointChoices, 'url'>

/** Name of a choice that attempts need. */
export type SentChoice = {
  [Field in keyof Choices]: Choices[Field] extends { readonly isSent: true } ? Field : never
}[keyof Choices]
