import { setTimeout as sleep } from 'node:timers/promises'
import { BusinessApiError, STORE_UNAVAILABLE } from '../base/errors.ts'
import type { EventLogStore, EventNote, WriteMark } from '../webhooks/event-log.ts'
import type { EventRecord } from '../writes/event-envelope.ts'

// Returns each new event once, without needing an endpoint. We can't tell from times or ids which events are new,
// because a transaction may commit an event long after publishing it, when newer ones have already been seen. Instead,
// the feed keeps rereading a window of the log and remembers all ids in the window. The store knows the latest time
// such that all writes in progress at that time have finished. The window starts a minute before that time, so a long
// transaction just makes the window longer, and no event is lost. The extra minute is for statements that wait between
// reading the store's clock and their first write.

/** Maximum time between publishing an event and its transaction's first write, in milliseconds. */
const MARGIN_MS = 60_000
/** Maximum number of events per statement. */
const PAGE_SIZE = 1000
/** Maximum number of event bodies per statement. Each one can have up to 256 KiB. */
const READ_SIZE = 32

/** Options for a feed. */
export interface FeedOptions {
  readonly intervalMs: number
  readonly signal: AbortSignal | undefined
  readonly isWanted: (note: EventNote) => boolean
  readonly onBegin: (() => void | Promise<void>) | undefined
  /** Called with `store_unavailable` errors, after which the feed continues. If missing, they are thrown. */
  readonly onError: ((error: unknown) => void) | undefined
}

/** Yields the events committed from now on. Events found in the same round are in event log order. */
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
    let restMs = intervalMs
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
          // Do this before yielding, because a consumer that stops at this event has already received it.
          window.add(note)
          const event = read.find(({ id }) => id === note.id)
          if (event) yield event
          if (signal?.aborted) return
        }
      }
      for (const note of fresh) window.add(note)
      window.move(mark)
      // Pause for at least as long as the round took.
      restMs = Math.max(intervalMs, performance.now() - begunAt)
    } catch (error) {
      if (!onError || !(error instanceof BusinessApiError) || error.code !== STORE_UNAVAILABLE) throw error
      await onError(error)
    }
    await sleep(restMs, undefined, signal ? { signal } : {}).catch(() => {})
  }
}

/** The part of the event log that a feed keeps rereading. */
interface Window {
  /** Start of the window in ISO 8601. */
  readonly since: string
  has(note: EventNote): boolean
  add(note: EventNote): void
  /** @param mark must be from before the window was read */
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
