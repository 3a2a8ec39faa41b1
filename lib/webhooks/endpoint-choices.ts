import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { type Column, columnsOf, type NamedColumn } from '../resources/columns.ts'
import { URL_MAX_LENGTH } from './destination.ts'
import { MAX_PER_SECOND_BOUNDS } from './endpoint-rate.ts'

// The settings of an endpoint that an organization can choose. Types, inputs, columns, privileges, comparisons and
// displays are all derived from this list.

// --- Inputs ---

const UrlSchema = v.pipe(
  field.text(1, URL_MAX_LENGTH),
  // URL parsers silently remove these, so the log would show a different URL.
  v.check((url) => !/[\s\p{Cc}]/u.test(url), 'must not contain white space or control characters'),
  // Store the parsed form since the log shows where requests go. For example, http:h.example is http://h.example/.
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
  /** The value for new endpoints if the organization doesn't choose one. If absent, it has to. */
  readonly initial?: unknown
  /** If `true`, the choice is needed for attempts. It's returned by `endpoint_target` in SQL. */
  readonly isSent?: true
}

/** All choices, in the order in which they appear in an audit entry's `details.fields`. */
export const CHOICES = {
  /** URL of the endpoint. Must be https, public, and on port 443 or at least 1024. Checked again at every attempt. */
  url: { input: UrlSchema, isSent: true },
  /**
   * The event types to send (at least one, without duplicates), or `null` for all types, including any that are added
   * later. Which types exist is checked by the calls.
   */
  types: { input: v.nullable(v.array(v.string())), type: 'text[]', initial: null },
  /** A description for people. Up to 200 characters, can be empty. */
  description: { input: field.text(0, 200), initial: '' },
  /**
   * If `true`, requests also have the Standard Webhooks headers, signed with the same secret. Rejected if Standard
   * Webhooks can't decode the signing secret, which then has to be rotated first. New endpoints default to `false`.
   */
  standardWebhooks: {
    input: v.boolean('must be true or false'),
    type: 'boolean',
    initial: false,
    isSent: true,
  },
  /**
   * Maximum number of deliveries per second across all processes, from 0.01 to 1,000, or `null` for no limit. Only
   * needed if you know the receiver's limit, otherwise it's learned from rejections. New endpoints default to `null`.
   */
  maxPerSecond: { input: MaxPerSecondSchema, type: 'float8', initial: null },
} as const satisfies Readonly<Record<string, Choice>>

type Choices = typeof CHOICES

/**
 * The settings of an endpoint that an organization can choose.
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

/** The choices for new endpoints unless the organization chooses otherwise. */
export const ENDPOINT_DEFAULTS: Omit<EndpointChoices, 'url'> = Object.fromEntries(
  Object.entries<Choice>(CHOICES).flatMap(([name, { initial }]) =>
    initial === undefined ? [] : [[name, initial]],
  ),
) as object as Omit<EndpointChoices, 'url'>

/** The name of a choice that is needed for attempts. */
export type SentChoice = {
  [Field in keyof Choices]: Choices[Field] extends { readonly isSent: true } ? Field : never
}[keyof Choices]
