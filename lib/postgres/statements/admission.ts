import { defineStatement, type Statement } from './statement.ts'

// A request is judged by one statement. With a token at hand (lib/postgres/allotments.ts) the statement only reads; without
// one, the statement also takes tokens from both buckets, and waits for other statements that take from the same buckets.
// Longer than 250 lines: the steps of that statement are one text.

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
  /** For how many seconds the process may hold tokens. */
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
  readonly read: Statement<JudgedValues & PageValues, JudgedColumn | PageColumn, 'page'>
  /** Judges the key, both rate limits and the scope, and takes tokens. `tokens` are null or 0 for a request over a limit. */
  readonly take: Statement<TakingValues & PageValues, JudgedColumn | 'tokens' | 'at' | PageColumn, 'page'>
}

/**
 * The key of the request, if it is in force, with its limits and buckets as they are. Its organization is compared in a form
 * that no index serves, because the key is to be found by its digest, also while the tables have no statistics.
 */
export const KEY = `
  select
    key.id,
    @scope::text = any (key.scopes) as has_scope,
    key.last_used_at is null or key.last_used_at < pg_catalog.clock_timestamp() - interval '1 minute' as last_use_is_stale,
    key.per_second, key.burst, own.per_second as organization_per_second, own.burst as organization_burst,
    of_key.full_at - pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) as key_full_in,
    of_organization.full_at - pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) as organization_full_in
  from business_api.api_keys key
  left join business_api.organization_limits own on own.organization_id = @organizationId::text
  left join business_api.rate_buckets of_key
    on of_key.organization_id = @organizationId::text and of_key.bucket = key.id
  left join business_api.rate_buckets of_organization
    on of_organization.organization_id = @organizationId::text and of_organization.bucket = 'organization'
  where key.digest = @keyDigest::text and key.organization_id is not distinct from @organizationId::text
    and (key.revoked_at is null or key.revoked_at > pg_catalog.clock_timestamp())
    and (key.expires_at is null or key.expires_at > pg_catalog.clock_timestamp())`

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

/** True for a request that a bucket lets through: ten microseconds forgive the errors of floating point. */
function hasToken(fullIn: string, rate: string, burst: string): string {
  return `${fullIn} <= (${burst} - 1) / ${rate} + 0.00001`
}

/**
 * True for a bucket with a limit of its own that is more than empty, because the limit was raised or the clock went back. Not for
 * a bucket under the limits of an API: another API on the store may have lower limits, and must not find its bucket refilled. A
 * hundredth of a second is more than the errors of floating point.
 */
function isMoreThanEmpty(isOwn: string, fullIn: string, rate: string, burst: string): string {
  return `coalesce(${isOwn} and ${fullIn} > ${burst} / ${rate} + 0.01, false)`
}

/**
 * True for a bucket of which tokens may be held. While they are held, the bucket must not become full: it would take no
 * refill, and the held tokens would be on top of its burst. A bucket that could become full counts as `holdSeconds` away
 * from it, which costs the bucket its refill of that time; that must be next to nothing.
 */
function mayBeHeld(fullIn: string, rate: string, burst: string): string {
  return `(${fullIn} >= @holdSeconds::float8 or ${burst} / ${rate} >= 256 * @holdSeconds::float8)`
}

/** At most 1/16 of what remains in the scarcer bucket. */
const TOKENS = `pg_catalog.floor(least(
  key_burst - key_full_in * key_rate, organization_burst - organization_full_in * organization_rate
) / 16)`

const TAKING_STEPS = [
  `key as (${KEY})`,
  `limited as (
    select
      id, key_full_in, organization_full_in,
      per_second is not null as is_own, organization_per_second is not null as is_organization_own,
      coalesce(per_second, @keyPerSecond::float8) as key_rate,
      coalesce(burst, @keyBurst::int)::float8 as key_burst,
      coalesce(organization_per_second, @organizationPerSecond::float8) as organization_rate,
      coalesce(organization_burst, @organizationBurst::int)::float8 as organization_burst
    from key
  )`,
  // Not for a bucket that is plainly empty: a flood over the limit takes no locks. A bucket that is more than empty becomes empty
  // once. In the order of the names, so that no two statements can deadlock.
  `locked as (
    select bucket.bucket, bucket.full_at
    from limited, business_api.rate_buckets bucket
    where bucket.organization_id = @organizationId::text and bucket.bucket = any (array[limited.id, 'organization'])
      and (
        ${hasToken('limited.key_full_in', 'key_rate', 'key_burst')}
        and ${hasToken('limited.organization_full_in', 'organization_rate', 'organization_burst')}
        or ${isMoreThanEmpty('is_own', 'limited.key_full_in', 'key_rate', 'key_burst')}
        or ${isMoreThanEmpty('is_organization_own', 'limited.organization_full_in', 'organization_rate', 'organization_burst')}
      )
    order by bucket.bucket
    for no key update of bucket
  )`,
  // The clock is read once the locks are held.
  `found as (
    select
      pg_catalog.max(full_at) filter (where bucket <> 'organization') as key_full_at,
      pg_catalog.max(full_at) filter (where bucket = 'organization') as organization_full_at,
      pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) as at
    from locked
  )`,
  `present as (
    select
      id, key_rate, key_burst, organization_rate, organization_burst, at,
      ${isMoreThanEmpty('is_own', '(key_full_at - at)', 'key_rate', 'key_burst')}
        or ${isMoreThanEmpty('is_organization_own', '(organization_full_at - at)', 'organization_rate', 'organization_burst')}
        as becomes_empty,
      greatest(0, case when is_own then least(key_full_at - at, key_burst / key_rate) else key_full_at - at end)
        as key_full_in,
      greatest(0, case
        when is_organization_own then least(organization_full_at - at, organization_burst / organization_rate)
        else organization_full_at - at
      end) as organization_full_in
    from limited, found
    where key_full_at is not null and organization_full_at is not null
  )`,
  `judged as (
    select
      present.*,
      case
        when not (
          ${hasToken('key_full_in', 'key_rate', 'key_burst')}
          and ${hasToken('organization_full_in', 'organization_rate', 'organization_burst')}
        ) then 0
        when ${mayBeHeld('key_full_in', 'key_rate', 'key_burst')}
          and ${mayBeHeld('organization_full_in', 'organization_rate', 'organization_burst')}
        then greatest(1, least(@wanted::float8, ${TOKENS}))
        else 1
      end as tokens
    from present
  )`,
  `after as (
    select
      id, at, tokens, becomes_empty,
      greatest(key_full_in, case when tokens > 1 then @holdSeconds::float8 else 0 end)
        + tokens / key_rate as key_full_in,
      greatest(organization_full_in, case when tokens > 1 then @holdSeconds::float8 else 0 end)
        + tokens / organization_rate as organization_full_in
    from judged
  )`,
  `taken as (
    update business_api.rate_buckets bucket
       set full_at = after.at + case
         when bucket.bucket = 'organization' then after.organization_full_in else after.key_full_in
       end
      from after
     where (after.tokens > 0 or after.becomes_empty) and bucket.organization_id = @organizationId::text
       and bucket.bucket = any (array[after.id, 'organization'])
    returning 1
  )`,
]

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
  const isAdmitted = 'key.has_scope'
  const isAdmittedAndTaken = 'key.has_scope and after.tokens > 0'
  return {
    read: defineStatement({
      answer: { ...KEY_COLUMNS, ...pageColumns(isAdmitted) },
      bytes: ['page'],
      from: `
        from (values (1)) as always (one)
        left join (${KEY}) as key on true
        left join lateral (${listed(isAdmitted)}) as listed on true`,
    }),
    take: defineStatement({
      steps: TAKING_STEPS,
      answer: {
        ...KEY_COLUMNS,
        keyFullIn: 'coalesce(after.key_full_in, key.key_full_in)::text',
        organizationFullIn: 'coalesce(after.organization_full_in, key.organization_full_in)::text',
        tokens: 'after.tokens::text',
        at: 'after.at::text',
        ...pageColumns(isAdmittedAndTaken),
      },
      bytes: ['page'],
      from: `
        from (values (1)) as always (one)
        left join key on true
        left join after on true
        left join lateral (${listed(isAdmittedAndTaken)}) as listed on true`,
    }),
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

/** A condition: the limits of the row `limits` are those under which tokens were taken. */
export function hasSameLimits(
  perSecond: string,
  burst: string,
  organizationPerSecond: string,
  organizationBurst: string,
): string {
  return `
    ${perSecond} is not distinct from @keyPerSecond::text::float8
    and ${burst} is not distinct from @keyBurst::text::int
    and ${organizationPerSecond} is not distinct from @organizationPerSecond::text::float8
    and ${organizationBurst} is not distinct from @organizationBurst::text::int`
}

/** Finds the organization of a key. */
export const FIND_ORGANIZATION: Statement<{ keyDigest: string }, 'organizationId'> = defineStatement({
  answer: {
    organizationId:
      '(select key.organization_id from business_api.api_keys key where key.digest = @keyDigest::text)',
  },
})
