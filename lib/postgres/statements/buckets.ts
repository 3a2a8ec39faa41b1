import { hasSameLimits, type OwnLimits } from './admission.ts'
import { defineStatement, type FixedStatement } from './statement.ts'

// The buckets of the rate limits apart from a request.

/** Makes the buckets of a key and of its organization, full. */
export const MAKE_BUCKETS: FixedStatement<{ organizationId: string; keyId: string }, 'made'> =
  defineStatement({
    steps: [
      `made as (
      insert into business_api.rate_buckets (organization_id, bucket, full_at)
      values (@organizationId::text, @keyId::text, 0), (@organizationId::text, 'organization', 0)
      on conflict do nothing
      returning 1
    )`,
    ],
    answer: { made: '(select pg_catalog.count(*) from made)::text' },
  })

/** The returned tokens that count as tokens of the earlier period. */
const OF_EARLIER_PERIOD =
  'case when returned.at < bucket.held_before_until then least(@tokens::float8, bucket.held_before) else 0 end'

/** The values that give tokens back. */
export interface GivenBack extends OwnLimits {
  readonly organizationId: string
  readonly keyId: string
  /** Seconds since 1970 by the database's clock: tokens that come back later are void. */
  readonly voidAt: number
  readonly tokens: number
  /** The tokens as the time in which the bucket refills them. */
  readonly keySeconds: number
  readonly organizationSeconds: number
}

/**
 * Gives tokens back to both buckets, unless they are void: a limit has changed since they were taken, or they come back too late. The
 * buckets do not become full by it, because the request that took the tokens has left room for them (`take_tokens`, sql/21-rate-limits.sql).
 */
export const GIVE_BACK: FixedStatement<GivenBack, 'given'> = defineStatement({
  steps: [
    `key as (
      select key.id
      from business_api.api_keys key
      left join business_api.organization_limits own on own.organization_id = @organizationId::text
      where key.organization_id = @organizationId::text and key.id = @keyId::text
        and ${hasSameLimits('key.per_second', 'key.burst', 'own.per_second', 'own.burst')}
    )`,
    `locked as (
      select bucket.bucket
      from key, business_api.rate_buckets bucket
      where bucket.organization_id = @organizationId::text and bucket.bucket = any (array[key.id, 'organization'])
      order by bucket.bucket
      for no key update of bucket
    )`,
    // A step of its own: the time after the wait for the lock.
    `returned as materialized (
      select
        bucket, pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) as at,
        case when bucket = 'organization' then @organizationSeconds::float8 else @keySeconds::float8 end as seconds
      from locked
    )`,
    `given as (
      update business_api.rate_buckets bucket
         set full_at = bucket.full_at - returned.seconds,
             held = bucket.held - @tokens::float8 + ${OF_EARLIER_PERIOD},
             held_before = bucket.held_before - ${OF_EARLIER_PERIOD}
        from returned
       where bucket.organization_id = @organizationId::text and bucket.bucket = returned.bucket
         and returned.at < @voidAt::float8
      returning 1
    )`,
  ],
  answer: { given: '(select pg_catalog.count(*) from given)::text' },
})
