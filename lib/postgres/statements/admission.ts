import {
  type BatchStatement,
  defineStatement,
  defineTogether,
  type FixedStatement,
  type StatementParts,
} from './statement.ts'

// A request is judged by one statement, which judges all requests that wait at the same time (lib/postgres/batches.ts). With a token
// at hand (lib/postgres/allotments.ts) the statement only reads; without one, the statement also takes tokens from both buckets.

/** The values that every such statement binds. */
export interface JudgedValues {
  readonly keyDigest: string
  readonly organizationId: string
  readonly scope: string
}

/** The values of a statement that takes tokens. */
export interface TakingValues extends JudgedValues {
  readonly keyPerSecond: number
  readonly keyBurst: number
  readonly organizationPerSecond: number
  readonly organizationBurst: number
  /** The number of tokens that are of use to this process. */
  readonly wanted: number
  /** For how many seconds the process holds tokens for requests to come. */
  readonly holdSeconds: number
}

/** All columns are null for a key that is not in force. */
export type JudgedColumn =
  | 'keyId'
  | 'hasScope'
  | 'lastUseIsStale'
  | OwnLimitColumn
  // Seconds until the bucket is full; null for a bucket that was never used.
  | 'keyFullIn'
  | 'organizationFullIn'

/** The limits of the key and of its organization; null for the limits of the API. */
export type OwnLimitColumn = 'keyPerSecond' | 'keyBurst' | 'organizationPerSecond' | 'organizationBurst'

/** The columns of a page, null unless the request is admitted: see {@link AdmittedPage}. */
export type PageColumn = 'page' | 'next' | 'position'

/** The statements that judge a request. @typeParam PageValues the values of the page */
export interface AdmissionStatements<PageValues = object> {
  /** Judges the key and the scope. */
  readonly read: BatchStatement<JudgedValues & PageValues, JudgedColumn | PageColumn, 'page'>
  /**
   * Judges the key, both rate limits and the scope, and takes tokens. `tokens` are null or 0 for a request over a limit. Among many
   * requests, one whose buckets another statement has locked is left alone.
   */
  readonly take: BatchStatement<
    TakingValues & PageValues,
    JudgedColumn | 'tokens' | 'voidAt' | PageColumn,
    'page'
  >
}

/** In place of tokens: another statement has locked a bucket. */
const LOCKED = '-1'

/** Joins the row of a table that a condition on `table` finds, or nulls. */
type JoinRow = (table: string, name: string, condition: string) => string

const joinRow: JoinRow = (table, name, condition) => `left join business_api.${table} ${name} on ${condition}`

/**
 * The limit has PostgreSQL look the row up for each request. Without the limit a plan may join whole tables, or read all buckets
 * of an organization.
 */
const lookRowUp: JoinRow = (table, name, condition) =>
  `left join lateral (select ${name}.* from business_api.${table} ${name} where ${condition} limit 1) as ${name} on true`

/**
 * The key of the request, if it is in force, with its limits and buckets as they are. Its organization is compared in a form
 * that no index serves, because the key is to be found by its digest, also while the tables have no statistics.
 */
const keyBy = (join: JoinRow): string => `
  select
    key.id,
    @scope::text = any (key.scopes) as has_scope,
    key.last_used_at is null or key.last_used_at < pg_catalog.clock_timestamp() - interval '1 minute' as last_use_is_stale,
    key.per_second, key.burst, own.per_second as organization_per_second, own.burst as organization_burst,
    of_key.full_at - pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) as key_full_in,
    of_organization.full_at - pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) as organization_full_in
  from business_api.api_keys key
  ${join('organization_limits', 'own', 'own.organization_id = @organizationId::text')}
  ${join('rate_buckets', 'of_key', 'of_key.organization_id = @organizationId::text and of_key.bucket = key.id')}
  ${join(
    'rate_buckets',
    'of_organization',
    "of_organization.organization_id = @organizationId::text and of_organization.bucket = 'organization'",
  )}
  where key.digest = @keyDigest::text and key.organization_id is not distinct from @organizationId::text
    and (key.revoked_at is null or key.revoked_at > pg_catalog.clock_timestamp())
    and (key.expires_at is null or key.expires_at > pg_catalog.clock_timestamp())`

/** The key of a single request. */
export const KEY: string = keyBy(joinRow)

/** The key of each of many requests. The digest is unique; the limit keeps PostgreSQL from joining whole tables. */
const KEY_OF_EACH = `${keyBy(lookRowUp)} limit 1`

/** The columns that every such statement answers. */
export const KEY_COLUMNS = {
  keyId: 'key.id',
  hasScope: 'key.has_scope::text',
  lastUseIsStale: 'key.last_use_is_stale::text',
  keyPerSecond: 'key.per_second::text',
  keyBurst: 'key.burst::text',
  organizationPerSecond: 'key.organization_per_second::text',
  organizationBurst: 'key.organization_burst::text',
  keyFullIn: 'key.key_full_in::text',
  organizationFullIn: 'key.organization_full_in::text',
} as const

/** Takes tokens from the buckets of the row `key`. @param mayWait whether for other statements that take from the same buckets */
const takeTokens = (mayWait: boolean): string => `
  select * from business_api.take_tokens(
    @organizationId::text, key.id,
    key.key_full_in, coalesce(key.per_second, @keyPerSecond::float8), coalesce(key.burst, @keyBurst::int),
    key.per_second is not null,
    key.organization_full_in, coalesce(key.organization_per_second, @organizationPerSecond::float8),
    coalesce(key.organization_burst, @organizationBurst::int), key.organization_per_second is not null,
    @wanted::float8, @holdSeconds::float8, ${mayWait}
  )`

/**
 * Builds the statements that judge a request.
 *
 * @param listed builds a subquery of one row with the columns of a page. The given condition must keep the subquery from
 *   reading records for a request that is not admitted
 */
export function defineAdmission<PageValues = object>(
  listed: (condition: string) => string = () =>
    'select null::text as page, null::text as next, null::text as position',
): AdmissionStatements<PageValues> {
  return {
    read: defineJudgement({ answer: KEY_COLUMNS, isAdmitted: 'key.has_scope', listed }),
    take: defineJudgement({
      answer: {
        ...KEY_COLUMNS,
        keyFullIn: 'coalesce(taken.key_full_after, key.key_full_in)::text',
        organizationFullIn: 'coalesce(taken.organization_full_after, key.organization_full_in)::text',
        tokens: 'taken.tokens::text',
        voidAt: 'taken.void_at::text',
      },
      taken: (mayWait) => `left join lateral (${takeTokens(mayWait)}) as taken on true`,
      isAdmitted: 'key.has_scope and taken.tokens > 0',
      listed,
      isLeftAlone: ({ tokens }) => tokens === LOCKED,
    }),
  }
}

function defineJudgement<Values, Column extends string>({
  answer,
  taken = () => '',
  isAdmitted,
  listed,
  isLeftAlone,
}: {
  readonly answer: Readonly<Record<Column, string>>
  readonly taken?: (mayWait: boolean) => string
  readonly isAdmitted: string
  readonly listed: (condition: string) => string
} & Pick<BatchStatement<Values, Column | PageColumn, 'page'>, 'isLeftAlone'>): BatchStatement<
  Values,
  Column | PageColumn,
  'page'
> {
  const partsOf = (key: string, mayWait: boolean): StatementParts<Column | PageColumn, 'page'> => ({
    answer: { ...answer, ...pageColumns(isAdmitted) },
    bytes: ['page'],
    from: `
      left join lateral (${key}) as key on true
      ${taken(mayWait)}
      left join lateral (${listed(isAdmitted)}) as listed on true`,
  })
  const one = partsOf(KEY, true)
  return {
    alone: defineStatement({ ...one, from: `from (values (1)) as always (one) ${one.from}` }),
    together: defineTogether(partsOf(KEY_OF_EACH, false)),
    isLeftAlone,
  }
}

function pageColumns(isAdmitted: string): Record<PageColumn, string> {
  return {
    page: `case when ${isAdmitted} then listed.page end`,
    next: 'listed.next',
    position: 'listed.position',
  }
}

/** Limits of a key and of its organization as the database has them; null for the limits of the API. */
export type OwnLimits = Readonly<Record<OwnLimitColumn, string | null>>

/**
 * A condition: the limits are those under which tokens were taken. Compared as the texts that the process was given, which are
 * shorter than the numbers under some settings of PostgreSQL.
 */
export function hasSameLimits(
  perSecond: string,
  burst: string,
  organizationPerSecond: string,
  organizationBurst: string,
): string {
  return `
    ${perSecond}::text is not distinct from @keyPerSecond::text
    and ${burst}::text is not distinct from @keyBurst::text
    and ${organizationPerSecond}::text is not distinct from @organizationPerSecond::text
    and ${organizationBurst}::text is not distinct from @organizationBurst::text`
}

/** Finds the organization of a key. */
export const FIND_ORGANIZATION: FixedStatement<{ keyDigest: string }, 'organizationId'> = defineStatement({
  answer: {
    organizationId:
      '(select key.organization_id from business_api.api_keys key where key.digest = @keyDigest::text)',
  },
})
