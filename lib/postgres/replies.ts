import type { ReplyOutcome, ReplyRequest, ReplyStore } from '../writes/idempotency.ts'
import type { RecordDatabase } from './connection/database.ts'
import { isKeyHeld } from './connection/driver-faults.ts'
import { KEY_IN_FORCE } from './statements/creation.ts'
import { type KeyValues, keyValuesOf, reserveKey } from './statements/key-reservation.ts'
import { ask, defineStatement } from './statements/statement.ts'
import { RESERVE_ATTEMPTS, readEntry } from './statements/write.ts'

interface KeyOwner {
  readonly organizationId: string
  readonly apiKeyId: string
}

const IS_IN_FORCE = '(select exists (select 1 from key))::text'

const JUDGE_KEY = defineStatement<KeyOwner, 'isInForce'>({
  steps: [KEY_IN_FORCE],
  answer: { isInForce: IS_IN_FORCE },
})

/** Bounds the wait for the key, and the following statements of the host's transaction have the host's limit again. */
const WAIT = `wait as materialized (
  select host.lock_timeout, pg_catalog.set_config('lock_timeout', @waitMs::text, true) as of_key
  from (select pg_catalog.current_setting('lock_timeout') as lock_timeout offset 0) as host
)`

// The entry has expired already: one that the host commits although the work has failed counts for nobody.
const RESERVE = defineStatement<
  KeyValues & KeyOwner & { writeId: string; waitMs: string },
  'hasGoneOn' | 'isInForce' | 'limit'
>({
  steps: [
    WAIT,
    KEY_IN_FORCE,
    reserveKey({ condition: 'exists (select 1 from key) and exists (select 1 from wait)', reply: "''" }),
  ],
  answer: {
    hasGoneOn: '(select pg_catalog.count(*) from reserved)::text',
    isInForce: IS_IN_FORCE,
    limit: "pg_catalog.set_config('lock_timeout', (select lock_timeout from wait), true)",
  },
})

const STORE = defineStatement<
  Pick<KeyValues, 'operation' | 'idempotencyKey' | 'windowMs'> & {
    organizationId: string
    writeId: string
    reply: string
  },
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

/** Creates the slice for replies of the host's own work, in a transaction of the host. */
export function createReplyStore(database: RecordDatabase): ReplyStore {
  /** Null: the work may begin. */
  async function reserve({
    organizationId,
    apiKeyId,
    writeId,
    idempotency,
  }: ReplyRequest): Promise<ReplyOutcome | null> {
    if (idempotency === null) {
      const { isInForce } = await ask(database, organizationId, JUDGE_KEY, { organizationId, apiKeyId })
      return isInForce === 'true' ? null : { outcome: 'unauthenticated' }
    }
    const waitMs = String(Math.ceil(idempotency.waitMs ?? 0))
    const key = { ...keyValuesOf({ ...idempotency, waitMs: null }), windowMs: 0 }
    const values = { ...key, organizationId, apiKeyId, writeId, waitMs }
    for (let attempt = 0; attempt < RESERVE_ATTEMPTS; attempt++) {
      const answer = await ask(database, organizationId, RESERVE, values).catch((error) => {
        if (isKeyHeld(error.cause)) return null
        throw error
      })
      if (answer === null) break
      if (answer.isInForce !== 'true') return { outcome: 'unauthenticated' }
      if (answer.hasGoneOn === '1') return null
      const entry = await readEntry(database, organizationId, idempotency)
      if (entry) return entry
    }
    return { outcome: 'in_progress' }
  }

  return {
    async once(request, work) {
      const reserved = await reserve(request)
      if (reserved) return reserved
      const reply = await work()
      const { organizationId, writeId, idempotency } = request
      if (idempotency) {
        const { operation, idempotencyKey, windowMs } = keyValuesOf(idempotency)
        const values = { organizationId, writeId, operation, idempotencyKey, windowMs, reply }
        const { stored } = await ask(database, organizationId, STORE, values)
        if (stored !== '1') throw new Error('Cannot store the reply because its reservation is gone')
      }
      return { outcome: 'created', reply }
    },
  }
}
