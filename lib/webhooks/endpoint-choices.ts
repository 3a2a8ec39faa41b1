import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { type Column, columnsOf, type NamedColumn } from '../resources/columns.ts'
import { URL_MAX_LENGTH } from './destination.ts'
import { MAX_PER_SECOND_BOUNDS } from './endpoint-rate.ts'

// An organization's choices about an endpoint: types, inputs, columns, privileges, comparisons and displays follow from this list.

// --- Inputs ---

const UrlSchema = v.pipe(
  field.text(1, URL_MAX_LENGTH),
  // A URL parser removes such characters silently: the log would show another URL than the given one.
  v.check((url) => !/[\s\p{Cc}]/u.test(url), 'must not contain white space or control characters'),
  // As parsed, because the log shows where requests go: http:h.example is http://h.example/.
  v.transform((url) => (URL.canParse(url) ? new URL(url).href : url)),
  field.text(1, URL_MAX_LENGTH),
)
const { min, max } = MAX_PER_SECOND_BOUNDS
const rateRequirement = `must be null, or a number from ${min} to ${max}`
const MaxPerSecondSchema = v.nullable(
  v.pipe(v.number(rateRequirement), v.minValue(min, rateRequirement), v.maxValue(max, rateRequirement)),
)

// --- The list ---

/** The column of a choice. */
interface Choice extends Column {
  readonly input: v.GenericSchema
  /** The choice for a new endpoint, unless the organization chooses otherwise. Absent: the organization has to choose. */
  readonly initial?: unknown
  /** An attempt needs the choice: `endpoint_target` in SQL gives it. */
  readonly isSent?: true
}

/** The choices, in the order of an audit entry's `details.fields`. */
export const CHOICES = {
  /** The URL of the endpoint: https, public, on port 443 or from 1024 on. Judged now and again at every attempt. */
  url: { input: UrlSchema, isSent: true },
  /** The event types to be sent, one at least, each once; null: every type, also types added later. The calls know the service's types. */
  types: { input: v.nullable(v.array(v.string())), type: 'text[]', initial: null },
  /** At most 200 characters, for people; may be empty. */
  description: { input: field.text(0, 200), initial: '' },
  /**
   * True: attempts also carry the headers of Standard Webhooks, signed with the same secret. Rejected for a signing secret
   * that Standard Webhooks cannot decode: rotate the secret first. Default of a new endpoint: false.
   */
  standardWebhooks: {
    input: v.boolean('must be true or false'),
    type: 'boolean',
    initial: false,
    isSent: true,
  },
  /**
   * Deliveries per second that the endpoint gets at most, of all processes together, from 0.01 to 1,000; null: no limit. For a
   * receiver whose limit is known: the rate of any other receiver is learned from its rejections. Default of a new endpoint: null.
   */
  maxPerSecond: { input: MaxPerSecondSchema, type: 'float8', initial: null },
} as const satisfies Readonly<Record<string, Choice>>

type Choices = typeof CHOICES

/**
 * An organization's choices about an endpoint. @typeParam Type by default any string, because another version of the host may have more
 * types
 */
export type EndpointChoices<Type extends string = string> = {
  readonly [Field in keyof Choices]: Field extends 'types'
    ? readonly Type[] | null
    : v.InferOutput<Choices[Field]['input']>
}

/** The columns of {@link EndpointChoices}. */
export const ENDPOINT_CHOICES: readonly NamedColumn[] = columnsOf({ columns: CHOICES })

/** The choices of a new endpoint, unless the organization chooses otherwise. */
export const ENDPOINT_DEFAULTS: Omit<EndpointChoices, 'url'> = Object.fromEntries(
  Object.entries<Choice>(CHOICES).flatMap(([name, { initial }]) =>
    initial === undefined ? [] : [[name, initial]],
  ),
) as object as Omit<EndpointChoices, 'url'>

/** A choice that an attempt needs. */
export type SentChoice = {
  [Field in keyof Choices]: Choices[Field] extends { readonly isSent: true } ? Field : never
}[keyof Choices]
