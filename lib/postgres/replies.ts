import type { ReplyRequest, ReplyStore } from '../writes/idempotency.ts'
import type { RecordDatabase } from './connection/database.ts'
import { IS_IN_FORCE } from './statements/creation.ts'
import { defineWrite, type KeyValues, keyValuesOf } from './statements/key-reservation.ts'
import { ask, defineStatement } from './statements/statement.ts'
import { askEach, type Reading, write } from './statements/write.ts'

type Owned = Pick<ReplyRequest, 'organizationId' | 'writeId'>

/**
 * Reserves the idempotency key. The entry starts out expired, so it has no effect if the host commits although `work`
 * failed. Waiting for the key has its own timeout. `limit` resets the timeout so that it doesn't apply to the rest of
 * the host's transaction.
 */
const RESERVE = defineWrite<Owned & Pick<ReplyRequest, 'apiKeyId'>, 'isInForce' | 'limit'>((reserve) => ({
  steps: [
    `host as materialized (select pg_catalog.current_setting('lock_timeout') as lock_timeout)`,
    reserve({
      condition: `(select lock_timeout from host) is not null and ${IS_IN_FORCE}`,
      reply: `''`,
    }),
    'published as (select 0::bigint as due)',
  ],
  answer: {
    isInForce: `${IS_IN_FORCE}::text`,
    limit: `pg_catalog.set_config('lock_timeout', (select lock_timeout from host), true)`,
  },
}))

const STORE = defineStatement<
  Owned & Omit<KeyValues, 'fingerprint' | 'lockTimeout'> & { reply: string },
  'stored'
>({
  steps: [
    `stored as (
      update business_api.idempotency_keys
         set reply = @reply::text, expires_at = pg_catalog.now() + @windowMs::float8 * interval '1 millisecond'
       where organization_id = @organizationId::text and operation = @operation::text and key = @idempotencyKey::text
         and record_id = @writeId::text
      returning 1
    )`,
  ],
  answer: { stored: '(select pg_catalog.count(*) from stored)::text' },
})

const RESERVED: Reading<'isInForce', { outcome: 'reserved' }, never, { outcome: 'unauthenticated' }> = {
  done: () => ({ outcome: 'reserved' }),
  judged: ({ isInForce }) => (isInForce === 'false' ? { outcome: 'unauthenticated' } : undefined),
}

/** Creates the reply store for the host's own work in the host's transaction. */
export function createReplyStore(database: RecordDatabase): ReplyStore {
  return {
    async once({ organizationId, apiKeyId, writeId, idempotency }, work) {
      const holder = { organizationId, idempotency: idempotency && { ...idempotency, windowMs: 0 } }
      const values = { organizationId, apiKeyId, writeId }
      const reserved = await write(database, holder, askEach(database, RESERVE), values, RESERVED)
      if (reserved.outcome !== 'reserved') return reserved
      const reply = await work()
      if (idempotency) {
        const storing = { ...values, ...keyValuesOf(idempotency), reply }
        const { stored } = await ask(database, organizationId, STORE, storing)
        if (stored !== '1') throw new Error('Cannot store the reply because its reservation is gone')
      }
      return { outcome: 'created' }
    },
  }
}
