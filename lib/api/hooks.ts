import type { KeyScope } from '../access/scopes.ts'
import { storeUnavailable } from '../base/errors.ts'
import { type AnswerTrace, channels, type RequestTrace } from '../base/tracing.ts'
import type { ApiReply } from '../http/message.ts'
import { Refusal } from '../http/refusal.ts'
import type { ErrorContext, Report } from '../http/report.ts'
import { pathOf } from '../http/target.ts'
import type { CallFacts, Exchange } from './exchange.ts'

// --- Types ---

/** A request of the API, with the caller as far as known, in the form for the host's hooks. */
export interface ApiCall extends Omit<ErrorContext, 'status'>, Readonly<CallFacts> {
  /** The caller's address by option `peerAddress`, by default the socket's; null when unknown. */
  readonly remoteAddress: string | null
}

/** A request with a valid key, within the limits and with the operation's scope: what `onRequest` receives. */
export interface AdmittedCall extends ApiCall {
  readonly operationId: string
  readonly organizationId: string
  readonly keyId: string
  /** The operation's scope, which the key has: `clients:write`. */
  readonly scope: KeyScope
}

/** An answered request: what `onResponse` receives. */
export interface AnsweredCall extends ApiCall, Omit<AnswerTrace, 'route'> {}

/** The host's hook before an operation: see option `onRequest`. */
export type OnRequest = (call: AdmittedCall) => Verdict | Promise<Verdict>

// biome-ignore lint/suspicious/noConfusingVoidType: a hook that lets a request go on may end without a return.
type Verdict = Refusal | null | undefined | void

/** The host's hook after an answer: see option `onResponse`. */
export type OnResponse = (call: AnsweredCall) => void | Promise<void>

/** The parts of an exchange that hooks and traces describe. */
export type DescribedExchange = Pick<Exchange, 'request' | 'requestId' | 'beganAt' | 'facts' | 'address'>

// --- Hooks ---

/**
 * Asks the host about an admitted call, until the request's deadline.
 *
 * @throws `Refusal` of the host; `TypeError` for a refusal that is none; `BusinessApiError` with code `store_unavailable` at
 *   the deadline; every error of the hook
 */
export async function askHost(onRequest: OnRequest, exchange: Exchange, scope: KeyScope): Promise<void> {
  // The facts of an admitted exchange are known.
  const ask = async () => onRequest({ ...describe(exchange), scope } as AdmittedCall)
  const refusal = await exchange.inTime(ask(), () =>
    storeUnavailable("Cannot answer the request because option 'onRequest' has not answered in time"),
  )
  if (refusal instanceof Refusal) throw refusal
  if (refusal !== undefined && refusal !== null)
    throw new TypeError("Cannot use the result of option 'onRequest' because it must be nothing or a Refusal")
}

/**
 * Reports an answer to the host's hook, to the trace and to the channel of answers.
 *
 * @param route the path of the operation; null for a path that the API does not have
 */
export type NoteAnswer = (
  exchange: DescribedExchange,
  reply: ApiReply,
  route: string | null,
  traced: RequestTrace | undefined,
) => void

/**
 * Creates the report of answers. The hook runs in a later turn of the event loop, when the answer is on the way: a
 * slow hook delays no answer, and a failing hook costs only a report.
 */
export function createNoteAnswer(onResponse: OnResponse | undefined, report: Report): NoteAnswer {
  async function tell(hook: OnResponse, exchange: DescribedExchange, answer: CallResult): Promise<void> {
    try {
      await hook({ ...describe(exchange), ...answer })
    } catch (error) {
      const { request, requestId } = exchange
      const context = { requestId, method: request.method, path: pathOf(request.url), status: answer.status }
      report(error, context, 'onResponse failed')
    }
  }

  return (exchange, { status, headers }, route, traced) => {
    const { answer: channel } = channels
    if (!onResponse && !traced && !channel.hasSubscribers) return
    const isReplay = 'Idempotent-Replayed' in headers
    if (traced) Object.assign(traced, { requestId: exchange.requestId, ...exchange.facts, status, isReplay })
    const durationMs = performance.now() - exchange.beganAt
    if (channel.hasSubscribers) {
      const { method } = exchange.request
      channel.publish({ method, route, status, durationMs, isReplay } satisfies AnswerTrace)
    }
    if (!onResponse) return
    const answer = { status, durationMs, isReplay }
    setImmediate(() => void tell(onResponse, exchange, answer))
  }
}

type CallResult = Pick<AnsweredCall, 'status' | 'durationMs' | 'isReplay'>

function describe({ request, requestId, facts, address }: DescribedExchange): ApiCall {
  const { method, url } = request
  return { requestId, method, path: pathOf(url), ...facts, remoteAddress: address() ?? null }
}
