import { setTimeout as sleep } from 'node:timers/promises'
import * as v from 'valibot'
import { type BusinessApiError, INVALID_STATE, refused } from '../base/errors.ts'
import { type Call, defineCall, found, IdSchema, someOf, whole } from '../base/host-input.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { BACKFILL_TYPES, type BackfillType, backfillTemplate } from '../resources/backfill.ts'
import type { WebhookEndpoint } from '../webhooks/endpoints.ts'
import { type Acting, audited, callback, defineAuditedCall, type MakeEntry, SignalSchema } from './calls.ts'

// --- Types ---

/** Which events to backfill. */
export interface BackfillSelection {
  /**
   * The event types to send. Any of `business.created`, `client.created`, `lead.created` and `proposal.created`. Types
   * the endpoint isn't subscribed to are skipped. Defaults to all types it's subscribed to.
   */
  readonly types?: readonly BackfillType[]
}

/** Options for `endpoints.backfill`. */
export interface BackfillOptions extends BackfillSelection, Acting {
  /** Maximum number of records to read, up to 100,000,000. Lets you return sooner. Defaults to all records. */
  readonly limit?: number
  /** `next` from the previous call. Defaults to `null`, which starts with the first type's oldest record. */
  readonly after?: string | null
  /** Called with the running totals after each batch. */
  readonly onProgress?: ((progress: BackfillPart) => void) | undefined
  /** Stops the backfill after the current batch. */
  readonly signal?: AbortSignal | undefined
}

/** The result of one backfill batch, or the total of several. */
export interface BackfillPart {
  /** Number of records read. */
  readonly examined: number
  /** Number of events created. The other records already had an event for the endpoint. */
  readonly events: number
  /** `after` for the next call, or `null` if the backfill is complete. */
  readonly next: string | null
}

/** Calls for sending existing records to a new endpoint. */
export interface BackfillCalls {
  /**
   * Sends one event per existing record to a single endpoint. It's a creation event, except that `data` is the current
   * record and `createdAt` is the time of the call. No other endpoint receives these events. The organization's other
   * deliveries come first.
   * Event ids (`evt_backfill_…`) are derived from the endpoint, type and record, so another backfill won't repeat any
   * event that is still retained (see the delivery loop's retention), no matter where the first one was interrupted.
   * Records are skipped if their creation event has already been sent to the endpoint or is about to be.
   * An event is missed if a transaction published it before the endpoint was registered and commits after the backfill.
   * Running another backfill after the commit sends only the missing events.
   * Records are processed in batches of 250, one statement each. After a batch, the call pauses for as long as the
   * batch took. Each backfill writes a single audit entry, or none if no events were created.
   *
   * @throws `BusinessApiError` with code `invalid_state` if the endpoint isn't enabled. If the endpoint is disabled
   * halfway through, the events created so far are kept, and you can call this again to create the rest
   */
  backfill(organizationId: string, endpointId: string, options?: BackfillOptions): Promise<BackfillPart>

  /**
   * Counts the records a backfill would read, up to 10,000 per type. Includes records that already have an event for
   * the endpoint.
   *
   * @throws `BusinessApiError` with code `invalid_state` if the endpoint isn't enabled
   */
  previewBackfill(
    organizationId: string,
    endpointId: string,
    selection?: BackfillSelection,
  ): Promise<BackfillPreview>
}

/** The number of records a backfill would read. */
export interface BackfillPreview {
  readonly endpoint: WebhookEndpoint
  /** Number of records for each type the endpoint is subscribed to. 10,000 means 10,000 or more. */
  readonly records: Readonly<Partial<Record<BackfillType, number>>>
}

// --- Inputs ---

/** Maximum number of records per batch. */
const PART_SIZE = 250
const COUNT_MAX = 10_000
const LIMIT_MAX = 100_000_000

const afterRequirement = 'must be null, or the next of an earlier part'

const AfterSchema = v.pipe(
  v.string(afterRequirement),
  v.check((after) => readPosition(after) !== null, afterRequirement),
)
const SELECTION = {
  endpointId: IdSchema,
  types: v.exactOptional(someOf(BACKFILL_TYPES), [...BACKFILL_TYPES]),
}
const ACTION = 'Cannot backfill a webhook endpoint'
const MANY = { judgesUndefined: true }
const readPreview = defineCall(ACTION, SELECTION, MANY)
const readBackfill = defineAuditedCall(
  ACTION,
  {
    ...SELECTION,
    after: v.exactOptional(v.nullable(AfterSchema), null),
    limit: v.exactOptional(whole(1, LIMIT_MAX), LIMIT_MAX),
    onProgress: callback<(progress: BackfillPart) => void>(),
    signal: SignalSchema,
  },
  MANY,
)

/** A backfill's position. `recordId` is the last record read, or empty at the start of a type. */
interface Position {
  readonly type: BackfillType
  readonly recordId: string
}

/** Parses a position such as `client.created cli_01K…`. */
function readPosition(text: string): Position | null {
  const [first = '', recordId = '', ...rest] = text.split(' ')
  const type = BACKFILL_TYPES.find((name) => name === first)
  return type === undefined || rest.length > 0 || recordId.includes('\0') ? null : { type, recordId }
}

// --- Calls ---

/** Creates the backfill calls. */
export function createBackfillCalls(
  { endpoints, backfills }: Pick<BusinessApiStore, 'endpoints' | 'backfills'>,
  makeEntry: MakeEntry,
): BackfillCalls {
  /** Returns the endpoint and the types to send, in backfill order. */
  async function readEndpoint({
    organizationId,
    action,
    input,
  }: Call<{ readonly endpointId: string; readonly types: readonly BackfillType[] }>) {
    const endpoint = found(await endpoints.get(organizationId, input.endpointId), action)
    if (endpoint.state !== 'enabled') throw notEnabled(action, endpoint.state)
    const types = BACKFILL_TYPES.filter((type) => {
      return input.types.includes(type) && (endpoint.types?.includes(type) ?? true)
    })
    return { endpoint, types }
  }

  async function run(
    call: ReturnType<typeof readBackfill>,
    { onProgress = () => {}, signal }: Pick<BackfillOptions, 'onProgress' | 'signal'>,
  ): Promise<BackfillPart> {
    const { organizationId, input, action } = call
    const { types } = await readEndpoint(call)
    const { endpointId, limit } = input
    const { entry } = audited(makeEntry, call, 'endpoint.backfilled', endpointId, { types })
    const sum = { examined: 0, events: 0 }
    let place = startAt(types, input.after)
    while (place !== null && sum.examined < limit && !signal?.aborted) {
      const begunAt = performance.now()
      const { type, recordId } = place
      const size = Math.min(PART_SIZE, limit - sum.examined)
      const template = backfillTemplate(type)
      const after = recordId === '' ? null : recordId
      const request = { organizationId, endpointId, type, template, after, limit: size, entry }
      const part = found(await backfills.backfill(request), action)
      if (part.outcome === 'not_enabled') throw notEnabled(action, 'no longer enabled')
      if (part.outcome === 'done') {
        sum.examined += part.examined
        sum.events += part.events
      }
      const next = part.outcome === 'done' ? part.next : null
      place = next === null ? startAfter(types, type) : { type, recordId: next }
      const tookMs = performance.now() - begunAt
      await onProgress({ ...sum, next: describe(place) })
      if (place !== null && sum.examined < limit) await sleep(tookMs)
    }
    return { ...sum, next: describe(place) }
  }

  return {
    async backfill(organizationId, endpointId, options) {
      const call = readBackfill(organizationId, options, { endpointId })
      return run(call, call.input)
    },

    async previewBackfill(organizationId, endpointId, selection) {
      const call = readPreview(organizationId, selection, { endpointId })
      const { endpoint, types } = await readEndpoint(call)
      const records: Partial<Record<BackfillType, number>> = {}
      for (const type of types) records[type] = await backfills.count(call.organizationId, type, COUNT_MAX)
      return { endpoint, records }
    },
  }
}

function notEnabled(action: string, state: string): BusinessApiError {
  return refused(action, INVALID_STATE, `the endpoint is ${state}: enable the endpoint, then repeat the call`)
}

function startAt(types: readonly BackfillType[], after: string | null): Position | null {
  const place = after === null ? null : readPosition(after)
  const first = types.find((type) => {
    return place === null || BACKFILL_TYPES.indexOf(type) >= BACKFILL_TYPES.indexOf(place.type)
  })
  if (first === undefined) return null
  return { type: first, recordId: place?.type === first ? place.recordId : '' }
}

function startAfter(types: readonly BackfillType[], type: BackfillType): Position | null {
  const following = types[types.indexOf(type) + 1]
  return following === undefined ? null : { type: following, recordId: '' }
}

function describe(place: Position | null): string | null {
  return place === null ? null : `${place.type} ${place.recordId}`.trim()
}
