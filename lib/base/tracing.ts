import { type Channel, channel, type TracingChannel, tracingChannel } from 'node:diagnostics_channel'

// Tracing channels of node:diagnostics_channel, which cost next to nothing without a subscriber. Each piece of work publishes an
// object, to which the work adds values until the end; examples/opentelemetry.ts makes spans of these objects.

/** A request of the API, published on the channel `business-api:request`. */
export interface RequestTrace {
  readonly method: string
  /** Without the query. */
  readonly path: string
  /** Known at the end; absent for a path that the API does not have. So are all fields below. */
  status?: number
  /** The id in the response. */
  requestId?: string
  /** The operation's id in the OpenAPI document; null for a request that reached no operation. */
  operationId?: string | null
  /** The organization of the API key; null for a request without a valid key. */
  organizationId?: string | null
  /** The id of the API key; null for a request without a valid key. */
  keyId?: string | null
  /** True for a response that repeats the stored reply of an idempotency key. */
  isReplay?: boolean
}

/** A call of a store's verb, published on the channel `business-api:store`. */
export interface StoreTrace {
  /** The slice: `clients`. */
  readonly slice: string
  /** The verb: `create`. */
  readonly verb: string
}

/** An attempt of a webhook delivery, published on the channel `business-api:attempt`. */
export interface AttemptTrace {
  readonly organizationId: string
  readonly deliveryId: string
  readonly endpointId: string
  readonly eventId: string
  readonly type: string
  /** The number of the attempt in the delivery's present round, from 1. */
  readonly attempt: number
  /**
   * The trace in which the event was written, as a W3C `traceparent`; null when unknown. To be linked, not to be the parent:
   * attempts follow minutes or days later, and a redelivery makes further attempts.
   */
  readonly traceparent: string | null
  /** Known at the end: the HTTP status, or null without a response. */
  status?: number | null
  /** Known at the end: why there was no response; null with a status. */
  error?: string | null
}

/** A response of the API, published on the plain channel `business-api:answer` when the response is known. */
export interface AnswerTrace {
  readonly method: string
  /** The path of the operation as the OpenAPI document has it; null for a path that the API does not have. */
  readonly route: string | null
  readonly status: number
  /** Milliseconds from the arrival of the request's head to the response, with a fraction. */
  readonly durationMs: number
  /** True for a response that repeats the stored reply of an idempotency key. */
  readonly isReplay: boolean
}

/** A call of the store by a delivery loop, published on the plain channel `business-api:loop` after the call. */
export type LoopStep = ClaimStep | ResultStep | PurgeStep

interface TimedStep {
  readonly durationMs: number
  /** True for a call that the store did not run. */
  readonly hasFailed: boolean
}

/** A claim of due deliveries. */
export interface ClaimStep extends TimedStep {
  readonly kind: 'claim'
  /** Claimed deliveries; 0 for a failed claim. */
  readonly deliveries: number
}

/** The results of attempts, written together. */
export interface ResultStep extends TimedStep {
  readonly kind: 'results'
  /** The written results, without lost ones; none for a failed write. */
  readonly results: readonly TracedResult[]
  /** Results that were dropped, because the claim had passed to another process. */
  readonly lost: number
}

/** An attempt's result, without any data of the organization. */
export interface TracedResult {
  readonly outcome: 'delivered' | 'retry' | 'failed'
  /** The HTTP status; null without a response. */
  readonly status: number | null
  /** Of the attempt. */
  readonly durationMs: number
}

/** One part of the purge. */
export interface PurgeStep extends TimedStep {
  readonly kind: 'purge'
  /** Lag of the purge, in ms; null: unknown, because no part was purged. */
  readonly lagMs: number | null
}

/** A channel for each kind of work. The names are part of the library's interface. */
export const channels: {
  readonly request: TracingChannel<object, RequestTrace>
  readonly store: TracingChannel<object, StoreTrace>
  readonly attempt: TracingChannel<object, AttemptTrace>
  /** Publishes each `Notice`: a plain channel, because a notice is not work that begins and ends. */
  readonly notice: Channel
  /** Publishes an {@link AnswerTrace} of each response: a plain channel, because a tracing channel adds promises to every request. */
  readonly answer: Channel
  /** Publishes each {@link LoopStep}. */
  readonly loop: Channel
} = {
  request: tracingChannel('business-api:request'),
  store: tracingChannel('business-api:store'),
  attempt: tracingChannel('business-api:attempt'),
  notice: channel('business-api:notice'),
  answer: channel('business-api:answer'),
  loop: channel('business-api:loop'),
}

/**
 * Does work and publishes a trace of the work to the channel's subscribers.
 *
 * @param describe makes the object to publish; called only when the channel has a subscriber
 * @param work gets that object, to add values as they become known; undefined without a subscriber
 */
export function trace<Trace extends object, T>(
  channel: TracingChannel<object, Trace>,
  describe: () => Trace,
  work: (trace: Trace | undefined) => Promise<T>,
): Promise<T> {
  return channel.hasSubscribers ? traceWork(channel, describe(), work) : work(undefined)
}

async function traceWork<Trace extends object, T>(
  channel: TracingChannel<object, Trace>,
  context: Trace,
  work: (trace: Trace) => Promise<T>,
): Promise<T> {
  // tracePromise() publishes the value of its promise. Answers hold customers' data, so the promise given to
  // tracePromise() resolves with nothing.
  const answers: T[] = []
  await channel.tracePromise(async () => void answers.push(await work(context)), context)
  return answers[0] as T
}

/** The only verb that does not return a promise. */
const SYNCHRONOUS_VERB = 'watch'

/**
 * Wraps a store so that its calls are published. A slice may be an instance of a class, so verbs are looked up when
 * called.
 */
export function traceStore<Store extends object>(store: Store): Store {
  const traced = new WeakMap<object, object>()
  return new Proxy(store, {
    get(target, name) {
      const slice: unknown = Reflect.get(target, name)
      if (typeof name !== 'string' || typeof slice !== 'object' || slice === null || NO_SLICES.has(name))
        return slice
      const known = traced.get(slice) ?? traceSlice(name, slice)
      traced.set(slice, known)
      return known
    },
  })
}

/** Names in a store that aren't slices. */
const NO_SLICES: ReadonlySet<string> = new Set(['shards', 'service'])

function traceSlice(name: string, slice: object): object {
  const verbs = new Map<string, unknown>()
  return new Proxy(slice, {
    get(target, verb) {
      const original: unknown = Reflect.get(target, verb)
      if (typeof verb !== 'string' || typeof original !== 'function' || verb === SYNCHRONOUS_VERB) {
        return original
      }
      const traced = verbs.get(verb) ?? traceVerb(target, { slice: name, verb })
      verbs.set(verb, traced)
      return traced
    },
  })
}

function traceVerb(slice: object, described: StoreTrace): (...args: unknown[]) => Promise<unknown> {
  return (...args) =>
    trace(
      channels.store,
      () => ({ ...described }),
      () => Reflect.get(slice, described.verb).apply(slice, args),
    )
}
