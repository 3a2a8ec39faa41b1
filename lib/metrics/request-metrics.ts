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
}

/** Bucket bounds in seconds. Lists take a few milliseconds, and requests time out after 5 s. */
const REQUEST_BOUNDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

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
    metrics: [requests, durations, replays],
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
  }
}
