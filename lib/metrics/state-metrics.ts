import { VERSION } from '../base/version.ts'
import type { ConnectionUse } from '../business-store.ts'
import type { LoopHealth } from '../webhooks/loop-health.ts'
import { createNumbers, type Description, type Labels, type Numbers, type Series } from './instruments.ts'
import type { QueueReading } from './queue-watch.ts'

/** A process's state at scrape time, one per shard, or a single one without shards. */
export interface State {
  /** The shard's labels, or empty if there are no shards. */
  readonly labels: Labels
  readonly queue: QueueReading
  /** `true` if this process counts the queue. */
  readonly isCounting: boolean
  readonly connections: ConnectionUse | undefined
  readonly loop: LoopHealth | null | undefined
  /** This process's current Unix time in milliseconds. */
  readonly now: number
}

/** A metric that is read at scrape time. */
export interface StateMetric extends Description {
  readonly kind: Numbers['kind']
  readonly labels: Labels
  /** Returns the current value, or `undefined` if there isn't one. */
  of(state: State): number | undefined
}

const NO_LABELS: Labels = {}

/** Metrics for the database's queue, and for this process's connections and loop. */
export const STATE_METRICS: readonly StateMetric[] = [
  gauge(
    'queue.up',
    '1',
    'Whether the last count of the queue succeeded on all servers.',
    ({ queue, isCounting }) =>
      isCounting ? Number(queue.counts !== null && !queue.counts.isPartial) : undefined,
  ),
  ofQueue('due', 'Pending deliveries that are due, of enabled endpoints, in the whole database', 'due'),
  gauge('queue.oldest_due', 's', 'Age of the oldest due delivery, in seconds.', ({ queue }) =>
    queue.counts ? queue.counts.oldestDueMs / 1000 : undefined,
  ),
  ofQueue('backing_off', 'Pending deliveries in the delay before a retry', 'backingOff'),
  ofQueue('paused', 'Pending deliveries of paused endpoints', 'paused'),
  ofQueue('sending', 'Sending deliveries, of any process', 'sending'),
  ofQueue('failed', 'Failed deliveries that have not been recovered', 'failed'),
  ofConnections('connections_max', '{connection}', 'Maximum number of connections of the store.', 'max'),
  ofConnections('connections_in_use', '{connection}', 'Connections running a statement.', 'inUse'),
  ofConnections('statements_waiting', '{statement}', 'Statements that wait for a connection.', 'waiting'),
  ofConnections(
    'statements_refused',
    '{statement}',
    'Statements rejected because too many waited for a connection.',
    'refused',
    'counter',
  ),
  ofConnections(
    'statements_timed_out',
    '{statement}',
    'Statements that waited for a connection until their deadline.',
    'timedOut',
    'counter',
  ),
  gauge('loop.running', '1', "Whether this process's delivery loop is running.", ({ loop }) =>
    loop ? Number(loop.state.startsWith('running')) : undefined,
  ),
  gauge(
    'loop.held',
    '1',
    "Whether this process's delivery loop waits because the database belongs to another installation.",
    ({ loop }) => (loop ? Number((loop.heldBecause ?? null) !== null) : undefined),
  ),
  gauge(
    'last_claim.timestamp',
    's',
    "Time of the last successful claim of this process's delivery loop, in seconds since 1970.",
    ({ loop, now }) =>
      typeof loop?.lastClaimAgoMs === 'number' ? (now - loop.lastClaimAgoMs) / 1000 : undefined,
  ),
  {
    name: 'business_api.info',
    help: 'Always 1; the label has the version of the library.',
    unit: '1',
    kind: 'gauge',
    labels: { version: VERSION },
    of: () => 1,
  },
]

/** Returns a metric's values along with their labels. Metrics with their own labels apply to the entire process. */
export function valuesOf(metric: StateMetric, states: readonly State[]): readonly Series[] {
  const isOfProcess = metric.labels !== NO_LABELS
  return (isOfProcess ? states.slice(0, 1) : states).flatMap((state) => {
    const value = metric.of(state)
    return value === undefined ? [] : [{ labels: isOfProcess ? metric.labels : state.labels, value }]
  })
}

/** Returns the state metrics of all shards for the Prometheus text. */
export function numbersOf(states: readonly State[]): readonly Numbers[] {
  return STATE_METRICS.flatMap((metric) => {
    const values = valuesOf(metric, states)
    const numbers = createNumbers(metric.kind, metric)
    for (const { labels, value } of values) numbers.series(labels).value = value
    return values.length === 0 ? [] : [numbers]
  })
}

function gauge(name: string, unit: string, help: string, of: StateMetric['of']): StateMetric {
  return { name: `business_api.${name}`, help, unit, kind: 'gauge', labels: NO_LABELS, of }
}

function ofQueue(
  name: string,
  help: string,
  field: 'due' | 'backingOff' | 'paused' | 'sending' | 'failed',
): StateMetric {
  const bounded = `${help}; 10001 stands for more than 10000.`
  return gauge(`queue.${name}`, '{delivery}', bounded, ({ queue }) => queue.counts?.[field])
}

function ofConnections(
  name: string,
  unit: string,
  help: string,
  field: keyof ConnectionUse,
  kind: Numbers['kind'] = 'gauge',
): StateMetric {
  return { ...gauge(name, unit, help, ({ connections }) => connections?.[field]), kind }
}
