import type { RequestRecord } from '../access/request-log.ts'
import type { Clock } from '../base/ids.ts'
import { describeError, type Logger } from '../base/log.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { ApiReply } from '../http/message.ts'
import { pathOf } from '../http/target.ts'
import type { Credentials } from './authenticate.ts'
import type { Exchange } from './exchange.ts'
import type { DescribedExchange } from './hooks.ts'

/** The requests to log: all, those with an error, or those with an error and a share of the others, 0 to 1. */
export type RequestLogChoice = 'all' | 'errors' | { readonly share: number }

/** The log of requests, as the host sees it. */
export interface RequestLog {
  /** Requests since the start that were not logged, because the store could not take them. */
  readonly dropped: number
  /** Writes the requests that wait. For a host whose process may stop after an answer: `waitUntil(api.requestLog.flush())`. */
  flush(): Promise<void>
}

/** The log of requests, as the handler sees it. */
export interface RequestLogWriter extends RequestLog {
  /** Logs a request, off its path. */
  note(exchange: LoggedExchange, reply: ApiReply, route: string): void
}

/** An exchange; without credentials if it could not begin. */
export type LoggedExchange = DescribedExchange & Partial<Pick<Exchange, 'credentials'>>

/** Requests that a statement writes at most. */
const BATCH_MAX = 500
/** Requests that wait at most; further ones are dropped. */
const WAITING_MAX = 10_000
/** Wait of the first request of a batch, in ms. */
const WAIT_MS = 1000
const TEXT_MAX = 200

/** Creates the log of requests. @param choice null: no request is logged */
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

  /** Waits for a batch, and keeps the store open until it is written. */
  function schedule(): void {
    if (timer || writing) return
    try {
      const release = store.beginRequest?.()
      timer = setTimeout(() => void flush().then(release), WAIT_MS)
    } catch {
      // The store is being closed, and waits for a statement that begins now.
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
      // A request for the document, or for the methods of a path, has no organization.
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

/** The error text of an answer, on one line, without the half of a character that is cut. @param body as every refusal has it */
function errorOf(body: ApiReply['body']): string {
  return String(JSON.parse(String(body)).error)
    .slice(0, TEXT_MAX)
    .replaceAll(/\p{C}/gu, ' ')
}
