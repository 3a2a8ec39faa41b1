import type { BusinessApiStore } from '../business-store.ts'
import { serviceOf } from '../service.ts'
import { showHeaders } from '../webhooks/attempt-headers.ts'
import type { Delivery } from '../webhooks/deliveries.ts'
import type { EventNote } from '../webhooks/event-log.ts'

// Exports an organization's settings as lines, with everything the developer settings show. Everything is read through
// a store, so digests, signing secrets and header values are never included.

/** The kinds of lines that aren't records. Each kind comes after the kinds it refers to. */
export const SETTINGS_KINDS = [
  'api_key',
  'rate_limit',
  'endpoint',
  'event',
  'delivery',
  'audit_entry',
] as const

/** One of {@link SETTINGS_KINDS}. */
export type SettingsKind = (typeof SETTINGS_KINDS)[number]

/** The parts of a store we read from. */
export type SettingsSource = Pick<
  BusinessApiStore,
  'apiKeys' | 'endpoints' | 'eventLog' | 'deliveries' | 'audit' | 'service'
>

/** Pages of lines, with no line breaks. */
type Pages = AsyncGenerator<readonly string[], void, undefined>

const PAGE_SIZE = 200
/** Maximum number of event bodies per statement. Each can have up to 256 KiB, or 4 MiB if the host allows it. */
const BODIES_READ = 8
/** Maximum number of deliveries per statement. Each has a few attempts with response excerpts of up to 4 KiB. */
const ATTEMPTS_READ = 64
/** Before any event */
const BEGINNING = '0001-01-01T00:00:00.000Z'

/**
 * Reads everything of one kind that the store has about an organization. Uses keyset pagination with small pages, so a
 * page costs the same anywhere in a long log. Rows added in the meantime may or may not be included.
 *
 * @returns pages of lines such as `{"kind":"endpoint","record":{…}}`
 */
export async function* readSettingsLines(
  store: SettingsSource,
  organizationId: string,
  kind: SettingsKind,
): Pages {
  yield* READERS[kind](store, organizationId)
}

const READERS: Readonly<Record<SettingsKind, (store: SettingsSource, organizationId: string) => Pages>> = {
  async *api_key({ apiKeys }, organizationId) {
    yield linesOf('api_key', await apiKeys.list(organizationId))
  },

  async *rate_limit({ apiKeys }, organizationId) {
    const limit = await apiKeys.getOrganizationLimit(organizationId)
    if (limit) yield linesOf('rate_limit', [limit])
  },

  async *endpoint({ endpoints }, organizationId) {
    yield linesOf('endpoint', await endpoints.list(organizationId))
    for await (const page of pagesOf((before) => endpoints.listRemoved(organizationId, PAGE_SIZE, before))) {
      yield linesOf(
        'endpoint',
        page.map((endpoint) => ({ ...endpoint, state: 'removed' })),
      )
    }
  },

  async *event({ eventLog }, organizationId) {
    let after: string | null = null
    do {
      const notes: readonly EventNote[] = await eventLog.listSince(
        organizationId,
        BEGINNING,
        PAGE_SIZE,
        after,
      )
      for (const some of chunksOf(notes, BODIES_READ)) yield await eventLines(eventLog, organizationId, some)
      after = notes.length === PAGE_SIZE ? (notes.at(-1)?.place ?? null) : null
    } while (after !== null)
  },

  async *delivery(store, organizationId) {
    const { deliveries } = store
    for await (const page of pagesOf((before) => deliveries.list(organizationId, {}, PAGE_SIZE, before))) {
      for (const some of chunksOf(page, ATTEMPTS_READ)) {
        yield linesOf('delivery', await withAttempts(store, organizationId, some))
      }
    }
  },

  async *audit_entry({ audit }, organizationId) {
    for await (const page of pagesOf((before) => audit.list(organizationId, {}, PAGE_SIZE, before))) {
      yield linesOf('audit_entry', page)
    }
  },
}

function linesOf(kind: SettingsKind, records: readonly object[]): readonly string[] {
  return records.map((record) => JSON.stringify({ kind, record }))
}

/** An event's record is its envelope, exactly as sent to subscribers. */
async function eventLines(
  eventLog: SettingsSource['eventLog'],
  organizationId: string,
  notes: readonly EventNote[],
): Promise<readonly string[]> {
  const bodies = await eventLog.read(
    organizationId,
    notes.map(({ id }) => id),
  )
  const bodyOf = new Map(bodies.map(({ id, body }) => [id, body]))
  return notes.flatMap(({ id, onlyEndpointId }) => {
    const body = bodyOf.get(id)
    // The event has been purged in the meantime.
    if (body === undefined) return []
    const beside = onlyEndpointId === null ? '' : `,"onlyEndpointId":${JSON.stringify(onlyEndpointId)}`
    // JSON only has line breaks between tokens and never inside strings.
    return [`{"kind":"event","record":${body.replace(/[\r\n]+/g, ' ')}${beside}}`]
  })
}

async function withAttempts(
  store: SettingsSource,
  organizationId: string,
  some: readonly Delivery[],
): Promise<readonly object[]> {
  const attempted = some.filter(({ attempts }) => attempts > 0).map(({ id }) => id)
  const logs = attempted.length === 0 ? null : await store.deliveries.listAttempts(organizationId, attempted)
  const { headerPrefix } = serviceOf(store)
  return some.map((delivery) =>
    showHeaders({ ...delivery, attemptLog: logs?.get(delivery.id) ?? [] }, headerPrefix),
  )
}

/** Reads a list page by page, newest first. */
async function* pagesOf<Item extends { readonly id: string }>(
  list: (before: string | null) => Promise<readonly Item[]>,
): AsyncGenerator<readonly Item[], void, undefined> {
  let before: string | null = null
  do {
    const page: readonly Item[] = await list(before)
    yield page
    before = page.length === PAGE_SIZE ? (page.at(-1)?.id ?? null) : null
  } while (before !== null)
}

function* chunksOf<Item>(items: readonly Item[], size: number): Generator<readonly Item[], void, undefined> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size)
}
