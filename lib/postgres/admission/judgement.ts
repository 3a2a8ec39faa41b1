import type { BatchStatement } from '../statements/statement.ts'

/** A batch of requests with the same key. */
export interface JudgementValues {
  readonly keyDigest: string
  /** Number of tokens to take, or 0 if there are no rate limits. */
  readonly wanted: number
  readonly keyPerSecond: number
  readonly keyBurst: number
  readonly organizationPerSecond: number
  readonly organizationBurst: number
  /** The organization that the key is expected to belong to. Empty if unknown. */
  readonly organizationHint: string
}

/** The result columns of `business_api.judge` in sql/21-rate-limits.sql, all null if the key isn't active. */
const COLUMNS = {
  organizationId: 'judged.organization_id',
  keyId: 'judged.key_id',
  scopes: "pg_catalog.array_to_string(judged.scopes, ' ')",
  lastUseIsStale: 'judged.last_use_is_stale::text',
  keyPerSecond: 'judged.key_rate::text',
  keyBurst: 'judged.key_burst::text',
  organizationPerSecond: 'judged.own_rate::text',
  organizationBurst: 'judged.own_burst::text',
  keyFullIn: 'judged.key_full_in::text',
  organizationFullIn: 'judged.organization_full_in::text',
  tokens: 'judged.tokens::text',
} as const

/** A column in {@link COLUMNS}. */
export type JudgedColumn = keyof typeof COLUMNS

const PARAMETERS = [
  'keyDigest',
  'wanted',
  'keyPerSecond',
  'keyBurst',
  'organizationPerSecond',
  'organizationBurst',
  'organizationHint',
] as const

function textOf(mayWait: boolean): string {
  const columns = Object.entries(COLUMNS).map(([name, column]) => `${column} as "${name}"`)
  return `
    select ${columns.join(', ')}, judged.place::text as "place", $8::text as "answerTag"
    from business_api.judge(
      $1::text::text[], $2::text::int[], $3::text::float8[], $4::text::float8[], $5::text::float8[], $6::text::float8[],
      $7::text::text[], ${mayWait}
    ) as judged`
}

/** Token count returned if a bucket is missing or locked by another statement. */
const NOT_TAKEN = '-1'

/** Checks requests for any number of keys. Returns one row per key. */
export const JUDGE: BatchStatement<JudgementValues, JudgedColumn> = {
  text: textOf(false),
  textOfOne: textOf(true),
  parameters: PARAMETERS,
  columns: Object.keys(COLUMNS) as JudgedColumn[],
  bytes: [],
  mustAskAlone: ({ tokens }) => tokens === NOT_TAKEN,
}
