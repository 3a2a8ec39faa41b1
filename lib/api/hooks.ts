import type { KeyScope } from '../access/scopes.ts'
import { storeUnavailable } from '../base/errors.ts'
import { type AnswerTrace, channels, type RequestTrace } from '../base/tracing.ts'
import type { ApiReply } from '../http/message.ts'
import { Refusal } from '../http/refusal.ts'
import type { ErrorContext, Report } from '../http/report.ts'
import { pathOf } from '../http/target.ts'
import type { CallFacts, Exchange } from './exchange.ts'

// --- Types ---

/** An API request and its caller (if known), as passed to the host's hooks. */
export interface ApiCall extends Omit<ErrorContext, 'status'>, Readonly<CallFacts> {
  /** The caller's address according to `peerAddress` (the socket's address by default), or `null` if unknown. */
  readonly remoteAddress: string | null
}

/** A request with a valid key that has the required scope and is within the rate limits. Passed to `onRequest`. */
export interface AdmittedCall extends ApiCall {
  readonly operationId: string
  readonly organizationId: string
  readonly keyId: string
  /** The scope that the operation requires, for example `clients:write`. */
  readonly scope: KeyScope
}

/** A request and its response. Passed to `onResponse`. */
export interface AnsweredCall extends ApiCall, Omit<AnswerTrace, 'route'> {}

/** Runs before an operation. See the `onRequest` option. */
export type OnRequest = (call: AdmittedCall) => Verdict | Promise<Verdict>

// biome-ignore lint/suspicious/noConfusingVoidType: a hook that allows the request may not return anything.
type Verdict = Refusal | null | undefined | void

/** Runs after a response. See the `onResponse` option. */
export type OnResponse = (call: AnsweredCall) => void | Promise<void>

/** The parts of an exchange that hooks and traces can see. */
export type DescribedExchange = Pick<Exchange, 'request' | 'requestId' | 'beganAt' | 'facts' | 'address'>

// --- Hooks ---

/**
 * Calls the host's `onRequest` hook and waits until the request's deadline.
 *
 * @throws the host's `Refusal`, a `TypeError` if the hook returns anything else, a `BusinessApiError` with code
 *   `store_unavailable` at the deadline, or any error from the hook
 */
export async function askHost(onRequest: OnRequest, exchange: Exchange, scope: KeyScope): Promise<void> {
  // Once an exchange is admitted, all the facts are known.
  const ask = async () => onRequest({ ...describe(exchange), scope } as AdmittedCall)
  const refusal = await exchange.inTime(ask(), () =>
    storeUnavailable("Cannot answer the request because option 'onRequest' has not answered in time"),
  )
  if (refusal instanceof Refusal) throw refusal
  if (refusal !== undefined && refusal !== null)
    throw new TypeError("The result of option 'onRequest' must be nothing or a Refusal")
}

/**
 * Reports a response to the host's hook, the trace and the `answer` channel.
 *
 * @param route the operation's path, or `null` if the path doesn't match any operation
 */
export type NoteAnswer = (
  exchange: DescribedExchange,
  reply: ApiReply,
  route: string | null,
  traced: RequestTrace | undefined,
) => void

/**
 * Creates a function that reports responses. It calls the hook in a later event loop turn, when the response is already
 * being sent, so a slow hook doesn't delay the response. Errors thrown by the hook are reported, but have no effect.
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
