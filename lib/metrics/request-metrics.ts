import type { AnswerTrace } from '../base/tracing.ts'
import {
  createHistogram,
  createNumbers,
  type Histogram,
  type HistogramSeries,
  type Numbers,
  type Series,
} from './instruments.ts'
import type { Meter } from './meter.ts'

/** Metrics for the API's responses. */
export interface RequestMetrics {
  readonly metrics: readonly (Numbers | Histogram)[]
  note(answer: AnswerTrace): void
  /** Updates the per-reason rejection counts. Must be called before reading the metrics. */
  refresh(): void
}

/** Bucket bounds in seconds. Lists take a few milliseconds, and requests time out after 5 s. */
const REQUEST_BOUNDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

const REASONS: Readonly<Record<number, string>> = {
  400: 'malformed',
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  409: 'in_progress',
  413: 'too_large',
  415: 'unsupported_media_type',
  422: 'invalid',
  429: 'rate_limited',
  500: 'internal_error',
  501: 'unsupported_coding',
  503: 'unavailable',
}

/** Clients can send arbitrary methods, so all the others share a single series. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
const OTHER = 'other'

interface RouteSeries {
  readonly route: string
  readonly method: string
  readonly durations: HistogramSeries
  readonly byStatus: Map<number, Series>
}

/** Creates the metrics of the API's responses. */
export function createRequestMetrics(meter: Meter | undefined): RequestMetrics {
  const requests = createNumbers('counter', {
    name: 'business_api.requests',
    help: 'API responses by route, method and status.',
    unit: '{request}',
  })
  const durations = createHistogram(
    {
      name: 'business_api.request.duration',
      help: 'Time from the request head to the response, in seconds.',
      unit: 's',
    },
    REQUEST_BOUNDS,
    meter,
  )
  const refusals = createNumbers('counter', {
    name: 'business_api.refusals',
    help: 'Responses with status 400 and above, by reason.',
    unit: '{request}',
  })
  const replays = createNumbers('counter', {
    name: 'business_api.replays',
    help: 'Replayed responses of idempotency keys.',
    unit: '{request}',
  })
  const replayed = replays.series()
  const routes = new Map<string | null, Map<string, RouteSeries>>()

  // Nested maps avoid building a string key for every request.
  function routeSeries(route: string | null, method: string): RouteSeries {
    const known = routes.get(route)?.get(method)
    if (known) return known
    if (method !== OTHER && !METHODS.has(method)) return routeSeries(route, OTHER)
    const labels = { route: route ?? OTHER, method }
    const made: RouteSeries = { ...labels, durations: durations.series(labels), byStatus: new Map() }
    const methods = routes.get(route) ?? new Map<string, RouteSeries>()
    routes.set(route, methods.set(method, made))
    return made
  }

  return {
    metrics: [requests, durations, refusals, replays],
    note({ route, method, status, durationMs, isReplay }) {
      const series = routeSeries(route, method)
      let counted = series.byStatus.get(status)
      if (!counted) {
        counted = requests.series({ route: series.route, method: series.method, status: String(status) })
        series.byStatus.set(status, counted)
      }
      counted.value++
      series.durations.observe(durationMs)
      if (isReplay) replayed.value++
    },
    refresh() {
      const sums = new Map<string, number>()
      for (const { labels, value } of requests.all) {
        const status = Number(labels.status)
        if (status < 400) continue
        const reason = REASONS[status] ?? OTHER
        sums.set(reason, (sums.get(reason) ?? 0) + value)
      }
      for (const [reason, sum] of sums) refusals.series({ reason }).value = sum
    },
  }
}
