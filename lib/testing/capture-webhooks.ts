import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { Clock } from '../base/ids.ts'
import { readFunction, readHaving, readTimeout, rejectUnknown } from '../base/options.ts'
import type { Event, EventType } from '../resources/event-catalogue.ts'
import { readService, type Service } from '../service.ts'
import { readReception, toReceived } from '../webhooks/received-webhook.ts'
import { verifyWebhook } from '../webhooks/signature.ts'
import { readSecrets } from '../webhooks/signature-header.ts'

/** Options for `captureWebhooks`. @typeParam Own the host's events, for example `EventsOf<typeof service>` */
export interface CaptureWebhooksOptions<Own extends object = object> {
  /**
   * Developer settings, created with `localDevelopment`, for registering the receiver as one of the organization's
   * endpoints. If absent, your test has to register `url` and pass the endpoint's `secret` to `verifyWith`.
   */
  readonly settings?: CapturingSettings | undefined
  /** The organization to capture events from. Required with `settings`. */
  readonly organizationId?: string | undefined
  /** The event types to register for. Requires `settings`. Defaults to all types. */
  readonly types?: readonly TypeIn<Own>[] | undefined
  /**
   * Returns the response status for an event (200 to 599). Called on every attempt. If it throws or returns anything
   * else, the response is a 500 and counts as a failure. Defaults to 204.
   */
  readonly answer?: ((event: Event<Own>) => number | Promise<number>) | undefined
  /** The service, which determines the header names. Defaults to the service in `settings`, or the default names. */
  readonly service?: Service | undefined
  /** The clock for checking signature timestamps. Defaults to `Date.now`. */
  readonly clock?: Clock | undefined
}

/** The part of the developer settings that we use here. */
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

/** An event with one of the given types. */
export type EventOf<Type extends string, Own extends object = object> = Extract<
  Event<Own>,
  { readonly type: Type }
>

/** A webhook we received but didn't respond to with a 2xx. */
export interface FailedWebhook<Own extends object = object> {
  readonly event: Event<Own>
  readonly status: number
  /** The error thrown by `answer`, or `undefined` if it returned a status. */
  readonly error?: unknown
}

/** Verified webhooks in the order they were received. */
export interface CapturedWebhooks<Own extends object = object> extends AsyncDisposable {
  /** The receiver's URL on 127.0.0.1. */
  readonly url: string
  /** The id of the registered endpoint, or `null` without `settings`. */
  readonly endpointId: string | null
  /** Events that were received and got a 2xx, without duplicates. */
  readonly events: readonly Event<Own>[]
  /** Verified webhooks that `answer` responded to with an error, including duplicates. */
  readonly failures: readonly FailedWebhook<Own>[]
  /** Why requests were rejected, for example because of a wrong signature. */
  readonly refusals: readonly string[]
  /** Sets the secret for verifying webhooks, or all current secrets during a rotation. */
  verifyWith(secret: string | readonly string[]): void
  /**
   * Waits for an event of the given type. Returns the oldest one that hasn't been returned before.
   *
   * @param options.timeoutMs timeout in milliseconds. Defaults to 5000
   * @throws Error on timeout, listing the events and rejected requests received instead
   */
  next<Type extends TypeIn<Own>>(type: Type, options?: { timeoutMs?: number }): Promise<EventOf<Type, Own>>
  /** Closes the receiver and its connections. Pending calls to `next` reject. */
  close(): Promise<void>
}

/**
 * Receives webhooks on a local port (127.0.0.1) to test code that publishes events. Each webhook is signed, sent over a
 * socket and verified, just like in production. Note: a delivery loop must be running.
 *
 * @typeParam Own your own event types and their data, for example `captureWebhooks<EventsOf<typeof service>>(…)`
 * @throws an error from the settings if the endpoint can't be registered
 *
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
  rejectUnknown(options, {
    settings: true,
    organizationId: true,
    types: true,
    answer: true,
    service: true,
    clock: true,
  })
  const { settings, organizationId, types, service = settings?.service } = options
  const clock = readFunction('clock', options.clock)
  const answer = readFunction('answer', options.answer) ?? (() => 204)
  if (settings !== undefined)
    readHaving("Option 'settings'", settings, 'endpoints.register', 'createDeveloperSettings()')
  const { headerPrefix } = readService(service)
  if (types !== undefined && !(Array.isArray(types) && settings))
    throw new TypeError("Option 'types' must be a list of event types, and requires option 'settings'")
  if ((settings === undefined) !== (organizationId === undefined)) {
    throw new TypeError(
      "Cannot register the capture because 'settings' and 'organizationId' must be given together",
    )
  }
  const failures: FailedWebhook<Own>[] = []
  const refusals: string[] = []
  const inbox = createInbox<Own>((events) => describe(events, failures, refusals))
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
      else failures.push({ event, status })
      return status
    } catch (error) {
      failures.push({ event, status: 500, error })
      return 500
    }
  }

  const server = createServer(async (request, response) => {
    const status = await receive(request).catch((error: Error) => {
      refusals.push(error.message)
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
    failures,
    refusals,
    verifyWith(given) {
      secrets = readSecrets(given)
    },
    next: async (type, options) => inbox.next(type, readTimeout(options, 5000, 1)),
    close,
    [Symbol.asyncDispose]: close,
  }
}

async function listen(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  // Lets the process exit even if a test fails before calling `close`.
  server.on('connection', (socket) => socket.unref()).unref()
  // Not a string, because the server listens on a port.
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

/** Creates a list of received events, and a function that waits for them. @param describe says what has arrived */
function createInbox<Own extends object>(describe: (events: readonly Event<Own>[]) => string) {
  const events: Event<Own>[] = []
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
        const reason = `No ${type} has arrived within ${timeoutMs} ms: ${describe(events)}`
        settle(() => reject(new Error(reason)))
      }, timeoutMs)
      waiting.add(check)
      check()
    })
  }

  return {
    events,
    /** Adds an event unless it's a duplicate. */
    take(event: Event<Own>): void {
      if (!events.some(({ id }) => id === event.id)) events.push(event)
      wake()
    },
    next,
    close(): void {
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
