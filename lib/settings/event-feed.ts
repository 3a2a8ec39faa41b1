import { setTimeout as sleep } from 'node:timers/promises'
import { BusinessApiError, STORE_UNAVAILABLE } from '../base/errors.ts'
import type { EventLogStore, EventNote, WriteMark } from '../webhooks/event-log.ts'
import type { EventRecord } from '../writes/event-envelope.ts'

// A feed of new events, each once, without a registered endpoint. Times and ids do not tell which events are new: a transaction
// may commit an event long after it was published, and after newer events were seen. So the feed reads a window of the log again
// and again, and remembers the ids that it has seen there. The window begins a minute before the latest moment of which the
// store says that every write that had begun by then has ended. A transaction that stays open therefore makes the window longer,
// and no event is lost. The minute is for a publishing statement that waits between reading the store's clock and its first write.

/** Maximum time between an event's publishing and the transaction's first write, in ms. */
const MARGIN_MS = 60_000
/** Maximum number of events noted in a statement. */
const PAGE_SIZE = 1000
/** Maximum number of event bodies read in a statement: up to 256 KiB each. */
const READ_SIZE = 32
/** The feed rests for at least as long as it has worked. */
const REST_FACTOR = 1

/** Options of a feed. */
export interface FeedOptions {
  readonly intervalMs: number
  readonly signal: AbortSignal | undefined
  readonly isWanted: (note: EventNote) => boolean
  readonly onBegin: (() => void | Promise<void>) | undefined
  /** Receives `store_unavailable`; the feed goes on. Absent: the feed throws. */
  readonly onError: ((error: unknown) => void) | undefined
}

/** Gives the events that are committed from now on, in the order of the event log as far as they are seen together. */
export async function* followEvents(
  log: EventLogStore,
  organizationId: string,
  { intervalMs, signal, isWanted, onBegin, onError }: FeedOptions,
): AsyncGenerator<EventRecord, void, undefined> {
  const window = createWindow(await log.mark(organizationId))
  for (const note of await readWindow()) window.add(note)
  await onBegin?.()

  async function readWindow(): Promise<readonly EventNote[]> {
    const notes: EventNote[] = []
    let after: string | null = null
    do {
      const page: readonly EventNote[] = await log.listSince(organizationId, window.since, PAGE_SIZE, after)
      notes.push(...page.filter((note) => !window.has(note)))
      after = page.length === PAGE_SIZE ? (page.at(-1)?.place ?? null) : null
    } while (after !== null)
    return notes
  }

  while (!signal?.aborted) {
    const begunAt = performance.now()
    try {
      const mark = await log.mark(organizationId)
      const fresh = await readWindow()
      const wanted = fresh.filter(isWanted)
      for (let start = 0; start < wanted.length; start += READ_SIZE) {
        const notes = wanted.slice(start, start + READ_SIZE)
        const read = await log.read(
          organizationId,
          notes.map(({ id }) => id),
        )
        for (const note of notes) {
          // Before the event is given away: a consumer that ends the feed has had the event.
          window.add(note)
          const event = read.find(({ id }) => id === note.id)
          if (event) yield event
          if (signal?.aborted) return
        }
      }
      for (const note of fresh) window.add(note)
      window.move(mark)
    } catch (error) {
      if (!onError || !(error instanceof BusinessApiError) || error.code !== STORE_UNAVAILABLE) throw error
      onError(error)
    }
    const restMs = Math.max(intervalMs, (performance.now() - begunAt) * REST_FACTOR)
    await sleep(restMs, undefined, signal ? { signal } : {}).catch(() => {})
  }
}

/** The part of the event log that a feed reads again. */
interface Window {
  /** ISO 8601. */
  readonly since: string
  has(note: EventNote): boolean
  add(note: EventNote): void
  /** @param mark made before the window was read */
  move(mark: WriteMark): void
}

function createWindow(first: WriteMark): Window {
  let marks: WriteMark[] = [first]
  let since = startFor(first)
  const seen = new Map<string, string>()
  return {
    get since() {
      return since
    },
    has: ({ id }) => seen.has(id),
    add: ({ id, at }) => void seen.set(id, at),
    move(mark) {
      marks.push(mark)
      const settled = marks.findLastIndex(({ begun }) => BigInt(begun) <= BigInt(mark.ended))
      const latest = marks[settled]
      if (!latest) return
      marks = marks.slice(settled)
      since = startFor(latest)
      for (const [id, at] of seen) if (at < since) seen.delete(id)
    },
  }
}

function startFor({ at }: WriteMark): string {
  return new Date(at - MARGIN_MS).toISOString()
}
