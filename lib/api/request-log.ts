import type { RequestRecord } from '../access/request-log.ts'
import type { Clock } from '../base/ids.ts'
import { describeError, type Logger } from '../base/log.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { ApiReply } from '../http/message.ts'
import { pathOf } from '../http/target.ts'
import type { Credentials } from './authenticate.ts'
import type { Exchange } from './exchange.ts'
import type { DescribedExchange } from './hooks.ts'

/** Which requests to log: everything, only errors, or errors and a fraction (0 to 1) of successful requests. */
export type RequestLogChoice = 'all' | 'errors' | { readonly share: number }

/** The request log as the host sees it. */
export interface RequestLog {
  /** Number of requests since startup that weren't logged because the store couldn't keep up. */
  readonly dropped: number
  /** Writes all pending requests. Use this if your process may be stopped: `waitUntil(api.requestLog.flush())`. */
  flush(): Promise<void>
}

/** The request log as the handler sees it. */
export interface RequestLogWriter extends RequestLog {
  /** Adds a request to the log without delaying the response. */
  note(exchange: LoggedExchange, reply: ApiReply, route: string): void
}

/** An exchange. Has no credentials if it couldn't be started. */
export type LoggedExchange = DescribedExchange & Partial<Pick<Exchange, 'credentials'>>

/** Maximum number of requests per statement. */
const BATCH_MAX = 500
/** Maximum number of pending requests. Any more are dropped. */
const WAITING_MAX = 10_000
/** Maximum time a request waits to be written, in ms. */
const WAIT_MS = 1000
const TEXT_MAX = 200

/** Creates the request log. If `choice` is `null`, nothing is logged. */
export function createRequestLog(
  store: Pick<BusinessApiStore, 'requests' | 'beginRequest'>,
  choice: RequestLogChoice | null,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): RequestLogWriter {
  const waiting: RequestRecord[] = []
  let dropped = 0
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> | undefined

  function isChosen(status: number): boolean {
    if (choice === null) return false
    return choice === 'all' || status >= 400 || (choice !== 'errors' && Math.random() < choice.share)
  }

  async function writeAll(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, BATCH_MAX)
      try {
        await store.requests.write(batch)
      } catch (error) {
        dropped += batch.length
        logger.warn({ dropped, error: describeError(error) }, 'Requests not logged')
      }
    }
  }

  function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    writing ??= writeAll().finally(() => {
      writing = undefined
      if (waiting.length > 0) schedule()
    })
    return writing
  }

  /** Starts the batch timer and keeps the store open until the batch is written. */
  function schedule(): void {
    if (timer || writing) return
    try {
      const release = store.beginRequest?.()
      timer = setTimeout(() => void flush().then(release), WAIT_MS)
    } catch {
      // The store is closing, but it still waits for statements that start now.
      void flush()
    }
  }

  return {
    get dropped() {
      return dropped
    },
    flush,
    note({ request, requestId, credentials, facts, beganAt }, { status, headers, body }, route) {
      const keyDigest = digestOf(credentials)
      // Requests for the document or for a path's methods don't belong to an organization.
      if (keyDigest === null || (facts.operationId === null && status < 400) || !isChosen(status)) return
      if (waiting.length >= WAITING_MAX) {
        dropped++
        return
      }
      const durationMs = performance.now() - beganAt
      waiting.push({
        id: requestId,
        at: new Date(clock() - durationMs).toISOString(),
        keyDigest,
        organizationId: facts.organizationId,
        method: request.method.slice(0, 20),
        route,
        path: pathOf(request.url).slice(0, TEXT_MAX),
        status,
        durationMs,
        error: status < 400 ? null : errorOf(body),
        isReplay: 'Idempotent-Replayed' in headers,
      })
      schedule()
    },
  }
}

function digestOf(credentials: Credentials | undefined): string | null {
  if (!credentials || credentials.kind === 'refused') return null
  return credentials.kind === 'known' ? credentials.key.keyDigest : credentials.keyDigest
}

/** Returns a rejection's error message on a single line, without the half of a character that truncation may leave. */
function errorOf(body: ApiReply['body']): string {
  return String(JSON.parse(String(body)).error)
    .slice(0, TEXT_MAX)
    .replaceAll(/\p{C}/gu, ' ')
}
