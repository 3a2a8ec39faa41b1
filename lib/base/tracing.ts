import { type Channel, channel, type TracingChannel, tracingChannel } from 'node:diagnostics_channel'

// Tracing channels (see node:diagnostics_channel), which cost next to nothing without subscribers. Each operation
// publishes an object and adds values until it ends. See examples/opentelemetry.ts for how to create spans.

/** An API request, published on the `business-api:request` channel. */
export interface RequestTrace {
  readonly method: string
  /** The path without the query string. */
  readonly path: string
  /** Set at the end, like all fields below. Absent if the path doesn't match any operation. */
  status?: number
  /** The request id from the response. */
  requestId?: string
  /** The operation's id in the OpenAPI document, or `null` if the request didn't reach an operation. */
  operationId?: string | null
  /** The organization that owns the API key, or `null` if there's no valid key. */
  organizationId?: string | null
  /** The API key's id, or `null` if there's no valid key. */
  keyId?: string | null
  /** `true` if this is a replay of the response stored for an idempotency key. */
  isReplay?: boolean
}

/** A store method call, published on the `business-api:store` channel. */
export interface StoreTrace {
  /** The slice, for example `clients`. */
  readonly slice: string
  /** The method, for example `create`. */
  readonly verb: string
}

/** A webhook delivery attempt, published on the `business-api:attempt` channel. */
export interface AttemptTrace {
  readonly organizationId: string
  readonly deliveryId: string
  readonly endpointId: string
  readonly eventId: string
  readonly type: string
  /** The attempt number within the delivery's current round, starting at 1. */
  readonly attempt: number
  /**
   * The W3C `traceparent` that was active when the event was written, or `null` if unknown. Use it as a link rather
   * than the parent, because attempts happen minutes or days later, and redelivering the event causes even more.
   */
  readonly traceparent: string | null
  /** The HTTP status, or `null` if there was no response. Set at the end. */
  status?: number | null
  /** Why there was no response, or `null` if there was one. Set at the end. */
  error?: string | null
}

/** An API response, published on the plain `business-api:answer` channel as soon as the response is known. */
export interface AnswerTrace {
  readonly method: string
  /** The operation's path in the OpenAPI document, or `null` if the path doesn't match any operation. */
  readonly route: string | null
  readonly status: number
  /** Milliseconds from receiving the request headers to the response. Has a fractional part. */
  readonly durationMs: number
  /** `true` if this is a replay of the response stored for an idempotency key. */
  readonly isReplay: boolean
}

/** A call from a delivery loop to the store, published on the plain `business-api:loop` channel after the call. */
export type LoopStep = ClaimStep | ResultStep | PurgeStep

interface TimedStep {
  readonly durationMs: number
  /** `true` if the store didn't execute the call. */
  readonly hasFailed: boolean
}

/** A claim of due deliveries. */
export interface ClaimStep extends TimedStep {
  readonly kind: 'claim'
  /** Number of claimed deliveries. 0 if the claim failed. */
  readonly deliveries: number
}

/** A batch of attempt results that were written together. */
export interface ResultStep extends TimedStep {
  readonly kind: 'results'
  /** The results that were written, not including lost ones. Empty if the write failed. */
  readonly results: readonly TracedResult[]
  /** Number of results dropped because another process had taken over the claim. */
  readonly lost: number
}

/** An attempt's result, without any of the organization's data. */
export interface TracedResult {
  readonly outcome: 'delivered' | 'retry' | 'failed'
  /** The HTTP status, or `null` if there was no response. */
  readonly status: number | null
  /** How long the attempt took, in milliseconds. */
  readonly durationMs: number
}

/** A purge step. */
export interface PurgeStep extends TimedStep {
  readonly kind: 'purge'
  /** How far behind the purge is, in ms, or `null` if unknown because nothing was purged. */
  readonly lagMs: number | null
}

/** All channels. The names are part of the public API. */
export const channels: {
  readonly request: TracingChannel<object, RequestTrace>
  readonly store: TracingChannel<object, StoreTrace>
  readonly attempt: TracingChannel<object, AttemptTrace>
  /** Publishes each `Notice`. This is a plain channel because a notice doesn't have a start and end. */
  readonly notice: Channel
  /** Publishes an {@link AnswerTrace} for each response. A tracing channel would add promises to every request. */
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
 * Runs an operation and publishes a trace to the channel's subscribers.
 *
 * @param describe creates the object to publish. Only called if the channel has subscribers
 * @param work receives that object to add values as soon as they're known, or `undefined` if there are no subscribers
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
  // tracePromise() publishes what the promise resolves to. Ours is undefined, because responses contain customer data.
  const answers: T[] = []
  await channel.tracePromise(async () => void answers.push(await work(context)), context)
  return answers[0] as T
}

/** The only method that doesn't return a promise. */
const SYNCHRONOUS_VERB = 'watch'

/** Wraps a store to publish its calls. We look up methods on every call because a slice can be a class instance. */
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

/** Store properties that aren't slices. */
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
