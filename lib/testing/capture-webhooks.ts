import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { Clock } from '../base/ids.ts'
import { type Names, readFunction, readTimeout, rejectUnknown } from '../base/options.ts'
import type { Event, EventType } from '../resources/event-catalogue.ts'
import type { Service } from '../service.ts'
import { readReception, toReceived } from '../webhooks/received-webhook.ts'
import { verifyWebhook } from '../webhooks/signature.ts'

/** Options of `captureWebhooks`. @typeParam Own the host's own types with their data: `EventsOf<typeof service>` */
export interface CaptureWebhooksOptions<Own extends object = object> {
  /**
   * The developer settings, with `localDevelopment`: the capture registers itself as an endpoint of
   * `organizationId`. Default: the test registers `url`, and passes the endpoint's `secret` to `verifyWith`.
   */
  readonly settings?: CapturingSettings | undefined
  /** The organization whose events are captured; with `settings`. */
  readonly organizationId?: string | undefined
  /** The event types; with `settings`. Default every type. */
  readonly types?: readonly TypeIn<Own>[] | undefined
  /** The status to respond to an event with, 200 to 599; repeated attempts ask again. Another value, and an error, is a failure with 500. Default 204. */
  readonly answer?: ((event: Event<Own>) => number | Promise<number>) | undefined
  /** The service whose headers come. Default: the service of `settings`, else the default names. */
  readonly service?: Service | undefined
  /** The clock that the time of signatures is compared with. Default `Date.now`. */
  readonly clock?: Clock | undefined
}

/** The part of the developer settings that a capture uses. */
export interface CapturingSettings {
  readonly service: Service
  readonly endpoints: {
    register(
      organizationId: string,
      endpoint: { readonly url: string; readonly types?: readonly string[] | null },
    ): Promise<{ readonly id: string; readonly secret: string }>
  }
}

type TypeIn<Own extends object> = EventType | (keyof Own & string)

/** An event of one or several types. */
export type EventOf<Type extends string, Own extends object = object> = Extract<
  Event<Own>,
  { readonly type: Type }
>

/** A webhook that came, and was answered with another status than 2xx. */
export interface FailedWebhook<Own extends object = object> {
  readonly event: Event<Own>
  readonly status: number
  /** The error thrown by option `answer`; undefined if it returned a status. */
  readonly error?: unknown
}

/** Webhooks that have arrived, verified, in the order of arrival. */
export interface CapturedWebhooks<Own extends object = object> extends AsyncDisposable {
  /** The address of the receiver, on 127.0.0.1. */
  readonly url: string
  /** The id of the registered endpoint; null without `settings`. */
  readonly endpointId: string | null
  /** The events that have arrived and were answered with 2xx, each once. */
  readonly events: readonly Event<Own>[]
  /** The verified webhooks that came and were answered with an error, each time, by option `answer`. */
  readonly failures: readonly FailedWebhook<Own>[]
  /** The requests that were rejected, because of the signature for example: what was wrong with each. */
  readonly refusals: readonly string[]
  /** Sets the secret, or the secrets of a rotation, to verify with. */
  verifyWith(secret: string | readonly string[]): void
  /**
   * Waits for the next event of a type: the oldest that no earlier call has returned.
   *
   * @param options.timeoutMs milliseconds to wait. Default 5000
   * @throws Error at the deadline, naming the events and refusals that have come instead
   */
  next<Type extends TypeIn<Own>>(type: Type, options?: { timeoutMs?: number }): Promise<EventOf<Type, Own>>
  /** Ends the receiver and its connections; a waiting `next` rejects. */
  close(): Promise<void>
}

const NAMES: Names<CaptureWebhooksOptions> = {
  settings: true,
  organizationId: true,
  types: true,
  answer: true,
  service: true,
  clock: true,
}

/**
 * Receives webhooks on a port of 127.0.0.1, to test code that publishes events. Each webhook is signed, sent over a socket and verified, as in
 * production. A delivery loop must run.
 *
 * @typeParam Own your own types with their data: `captureWebhooks<EventsOf<typeof service>>(…)`
 * @throws the error of the settings if the endpoint can't be registered
 * @example
 * ```ts
 * const captured = await captureWebhooks({ settings, organizationId: 'org_42' })
 * const { data } = await captured.next('invoice.paid')
 * await captured.close()
 * ```
 */
export async function captureWebhooks<Own extends object = object>(
  options: CaptureWebhooksOptions<Own> = {},
): Promise<CapturedWebhooks<Own>> {
  rejectUnknown(options, NAMES)
  const { settings, organizationId, types, clock = Date.now } = options
  const answer = readFunction('answer', options.answer) ?? (() => 204)
  const { headerPrefix } = options.service ?? settings?.service ?? {}
  if ((settings === undefined) !== (organizationId === undefined)) {
    throw new TypeError(
      "Cannot register the capture because 'settings' and 'organizationId' must be given together",
    )
  }
  const inbox = createInbox<Own>()
  let secrets: string | readonly string[] = []

  async function receive(request: IncomingMessage): Promise<number> {
    const body = await buffer(request)
    const reception = { secret: secrets, headerPrefix, clock }
    const { signatureHeader } = readReception(request.method ?? '', reception)
    const { timestamp } = verifyWebhook(body, request.headers[signatureHeader], secrets, { clock })
    const { event } = await toReceived<Own>(body, timestamp, reception)
    try {
      const status = await answer(event)
      if (!Number.isInteger(status) || status < 200 || status > 599) {
        throw new TypeError(`option 'answer' must return a status from 200 to 599: it returned ${status}`)
      }
      if (status < 300) inbox.take(event)
      else inbox.fail({ event, status })
      return status
    } catch (error) {
      inbox.fail({ event, status: 500, error })
      return 500
    }
  }

  const server = createServer(async (request, response) => {
    const status = await receive(request).catch((error: Error) => {
      inbox.refuse(error.message)
      return 400
    })
    response.writeHead(status).end()
  })
  const url = await listen(server)
  let closed: Promise<void> | undefined

  function close(): Promise<void> {
    inbox.close()
    closed ??= end(server)
    return closed
  }

  let endpointId: string | null = null
  if (settings !== undefined && organizationId !== undefined) {
    const endpoint = { url, ...(types && { types: [...types] }) }
    const registered = await settings.endpoints.register(organizationId, endpoint).catch(async (error) => {
      await close()
      throw error
    })
    endpointId = registered.id
    secrets = registered.secret
  }

  return {
    url,
    endpointId,
    events: inbox.events,
    failures: inbox.failures,
    refusals: inbox.refusals,
    verifyWith(given) {
      secrets = given
    },
    next: async (type, options) => inbox.next(type, readTimeout(options, 5000, 1)),
    close,
    [Symbol.asyncDispose]: close,
  }
}

async function listen(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  // A test that fails before `close` still lets its process end.
  server.on('connection', (socket) => socket.unref()).unref()
  // Not a path, because the server listens on a port.
  const { port } = server.address() as AddressInfo
  return `http://127.0.0.1:${port}/webhooks`
}

async function end(server: Server): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await closed
}

// --- Events ---

/** The events that have arrived, and the waiting calls. */
interface Inbox<Own extends object> extends Pick<CapturedWebhooks<Own>, 'events' | 'failures' | 'refusals'> {
  fail(failure: FailedWebhook<Own>): void
  /** Keeps an event, if it is new. */
  take(event: Event<Own>): void
  refuse(reason: string): void
  next<Type extends TypeIn<Own>>(type: Type, timeoutMs: number): Promise<EventOf<Type, Own>>
  close(): void
}

function createInbox<Own extends object>(): Inbox<Own> {
  const events: Event<Own>[] = []
  const failures: FailedWebhook<Own>[] = []
  const refusals: string[] = []
  const returned = new Set<string>()
  const waiting = new Set<() => void>()
  let isClosed = false

  function wake(): void {
    for (const check of waiting) check()
  }

  function next<Type extends TypeIn<Own>>(type: Type, timeoutMs: number): Promise<EventOf<Type, Own>> {
    return new Promise((resolve, reject) => {
      const settle = (outcome: () => void): void => {
        clearTimeout(timer)
        waiting.delete(check)
        outcome()
      }
      const check = (): void => {
        const found = events.find((event) => event.type === type && !returned.has(event.id))
        if (found !== undefined) {
          returned.add(found.id)
          settle(() => resolve(found as EventOf<Type, Own>))
        } else if (isClosed) {
          settle(() => reject(new Error(`Cannot wait for ${type} because the capture is closed`)))
        }
      }
      const timer = setTimeout(() => {
        const reason = `No ${type} has arrived within ${timeoutMs} ms: ${describe(events, failures, refusals)}`
        settle(() => reject(new Error(reason)))
      }, timeoutMs)
      waiting.add(check)
      check()
    })
  }

  return {
    events,
    failures,
    refusals,
    fail: (failure) => {
      failures.push(failure)
    },
    take(event) {
      if (!events.some(({ id }) => id === event.id)) events.push(event)
      wake()
    },
    refuse: (reason) => {
      refusals.push(reason)
    },
    next,
    close() {
      isClosed = true
      wake()
    },
  }
}

function describe<Own extends object>(
  events: readonly Event<Own>[],
  failures: readonly FailedWebhook<Own>[],
  refusals: readonly string[],
): string {
  if (events.length + failures.length + refusals.length === 0)
    return 'nothing has arrived. Is a delivery loop running?'
  const come = events.map(({ type }) => type).join(', ')
  const failed = failures
    .map(
      ({ event, status, error }) => `${event.type} with ${status}${error === undefined ? '' : ` (${error})`}`,
    )
    .join(', ')
  return `come: ${come || 'nothing'}${failed && `; answered with an error: ${failed}`}${refusals.length === 0 ? '' : `; refused: ${refusals.join('; ')}`}`
}
