// Creates OpenTelemetry spans from the library's tracing channels. There is a span for each API request with
// its store calls, and one for each webhook attempt, which links to the span in which the event was written.
// Call traceBusinessApi once where the process sets up tracing, and pass the `traceparent` option wherever
// events are written:
//
//   import { trace } from '@opentelemetry/api'
//   const stop = traceBusinessApi(trace.getTracer('business-api-kit'))
//   const api = createBusinessApi(store, { traceparent })
//   const platform = createPlatform(store, { traceparent })

import { AsyncLocalStorage } from 'node:async_hooks'
import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel'
import {
  type Attributes,
  type Context,
  context,
  type Link,
  type Span,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { AttemptTrace, RequestTrace, StoreTrace } from 'business-api-kit'

/** The span of the current request, so that store calls become its children. */
const around = new AsyncLocalStorage<Context>()

/** Returns the current span as a W3C traceparent. It can be a request of the library or a span of your own code. */
export function traceparent(): string | undefined {
  const span = trace.getSpanContext(around.getStore() ?? context.active())
  return span && `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, '0')}`
}

/** Starts creating spans with a tracer. Returns a function that stops it. */
export function traceBusinessApi(tracer: Tracer): () => void {
  const stops = [
    bridge<RequestTrace>('request', ({ method, path }) => `${method} ${path}`, describeRequest),
    bridge<StoreTrace>(
      'store',
      ({ slice, verb }) => `${slice}.${verb}`,
      () => ({}),
    ),
    // We use a link because a child would extend the request's trace by minutes, or even days after a redelivery.
    bridge<AttemptTrace>(
      'attempt',
      ({ type }) => `POST ${type}`,
      describeAttempt,
      (traced) => ({ root: true, links: linksOf(traced) }),
    ),
  ]
  return () => {
    for (const stop of stops) stop()
  }

  function bridge<Trace extends object>(
    name: string,
    nameOf: (trace: Trace) => string,
    attributesOf: (trace: Trace) => Attributes,
    optionsOf: (trace: Trace) => SpanOptions = () => ({}),
  ): () => void {
    const channel: TracingChannel<Context, Trace> = tracingChannel(`business-api:${name}`)
    const spans = new WeakMap<object, Span>()
    channel.start.bindStore(around, (traced) => {
      const parent = around.getStore() ?? context.active()
      const span = tracer.startSpan(nameOf(traced), optionsOf(traced), parent)
      spans.set(traced, span)
      return trace.setSpan(parent, span)
    })
    const subscribers = {
      // The span was already started by the store that is bound to the channel.
      start: () => {},
      end: () => {},
      asyncStart: () => {},
      error: (traced: Trace) => void spans.get(traced)?.setStatus({ code: SpanStatusCode.ERROR }),
      asyncEnd(traced: Trace) {
        const span = spans.get(traced)?.setAttributes(attributesOf(traced))
        if (hasFailed(traced)) span?.setStatus({ code: SpanStatusCode.ERROR })
        span?.end()
      },
    }
    channel.subscribe(subscribers)
    return () => {
      channel.start.unbindStore(around)
      channel.unsubscribe(subscribers)
    }
  }
}

/** The library has already checked that this is a traceparent of version 00. */
function linksOf({ traceparent }: AttemptTrace): Link[] {
  const [, traceId, spanId, flags] = traceparent?.split('-') ?? []
  if (traceId === undefined || spanId === undefined) return []
  return [{ context: { traceId, spanId, traceFlags: Number.parseInt(flags ?? '0', 16), isRemote: true } }]
}

/** Returns `true` if a request or attempt ended with a 5xx, or if an attempt got no response. */
function hasFailed(traced: { readonly status?: number | null; readonly error?: string | null }): boolean {
  return typeof traced.error === 'string' || (traced.status ?? 0) >= 500
}

function describeRequest({ method, status, operationId, organizationId }: RequestTrace): Attributes {
  return {
    'http.request.method': method,
    ...(status === undefined ? {} : { 'http.response.status_code': status }),
    ...(operationId ? { 'business_api.operation_id': operationId } : {}),
    ...(organizationId ? { 'business_api.organization_id': organizationId } : {}),
  }
}

function describeAttempt({
  organizationId,
  endpointId,
  eventId,
  attempt,
  status,
  error,
}: AttemptTrace): Attributes {
  return {
    'business_api.organization_id': organizationId,
    'business_api.endpoint_id': endpointId,
    'business_api.event_id': eventId,
    'business_api.attempt': attempt,
    ...(typeof status === 'number' ? { 'http.response.status_code': status } : {}),
    ...(typeof error === 'string' ? { 'error.type': error } : {}),
  }
}
