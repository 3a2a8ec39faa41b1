import { type Column, type Figures, findSeries, medianRatio } from './figures.ts'
import type { PartName } from './options.ts'

/** A ratio that the benchmark prints, with the goal if there is one. */
export interface Comparison {
  readonly part: PartName
  readonly text: string
  readonly of: readonly [work: string, subject: string]
  readonly over: readonly [work: string, subject: string]
  /** Default `perSecond`. */
  readonly column?: Column
  readonly atLeast?: number
  readonly atMost?: number
}

/** A comparison with the figure of a run. */
export interface Judged extends Comparison {
  readonly ratio: number
  /** `null` without a goal. */
  readonly isMet: boolean | null
}

const FIFTY = 'list of 50, one key'
const FIFTY_OF_MANY = 'list of 50, 1,000 organizations'
const ONE = 'list of 1, one key'
const CREATE = 'create, one endpoint'

/** Every ratio of the benchmark, in the order of the report. */
export const COMPARISONS: readonly Comparison[] = [
  ...besidePeers('lists', FIFTY, 4),
  ...besidePeers('lists', FIFTY_OF_MANY, 4),
  ...besidePeers('lists', ONE, 3),
  ...besidePeers('creates', CREATE, 1.8),
  overList('429 flood'),
  overList('401 flood'),
  duringFlood('429 flood'),
  duringFlood('401 flood'),
  {
    part: 'statement',
    text: 'list of 50 over HTTP / its statement alone',
    of: [FIFTY, 'ours'],
    over: ['list statement', 'alone'],
    atLeast: 0.5,
  },
  besideDeliverer('raw signed POSTs', 0.45),
  besideDeliverer('graphile-worker', 5),
  besideDeliverer('BullMQ', 2.5),
  besideDeliverer('pg-boss', 8),
  {
    part: 'deliveries',
    text: 'two delivery processes / one (or the cores are full)',
    of: ['deliver', 'ours, 2 processes'],
    over: ['deliver', 'ours'],
    atLeast: 1.2,
  },
  ...['lists', 'creates', 'deliveries'].map(togetherWithPeer),
]

/** Judges the comparisons that a run has figures for. */
export function judge(figures: Figures, comparisons: readonly Comparison[] = COMPARISONS): Judged[] {
  return comparisons.flatMap((comparison) => {
    const { part, of, over, column = 'perSecond', atLeast, atMost } = comparison
    const series = figures[part]?.series ?? []
    const [one, other] = [findSeries(series, ...of), findSeries(series, ...over)]
    if (!one || !other) return []
    const ratio = medianRatio(one, other, column)
    const isMet = atLeast !== undefined ? ratio >= atLeast : atMost !== undefined ? ratio <= atMost : null
    return [{ ...comparison, ratio, isMet }]
  })
}

function togetherWithPeer(work: string): Comparison {
  const name = `${work} at a host's rate`
  return {
    part: 'together',
    text: `p99 of ${name}: ours / Fastify, graphile-worker`,
    of: [name, 'ours'],
    over: [name, 'Fastify, graphile-worker'],
    column: 'p99Ms',
    atMost: 1,
  }
}

function besidePeers(part: PartName, work: string, atLeast: number): Comparison[] {
  const beside = (peer: string): Comparison => ({
    part,
    text: `${work}: ours / ${peer}`,
    of: [work, 'ours'],
    over: [work, peer],
  })
  return [{ ...beside('Fastify'), atLeast }, beside('Fastify, limited'), beside('Express')]
}

function overList(flood: string): Comparison {
  return { part: 'floods', text: `${flood} / ${ONE}`, of: [flood, 'ours'], over: [ONE, 'ours'], atLeast: 1 }
}

function duringFlood(flood: string): Comparison {
  return {
    part: 'floods',
    text: `p99 of another organization beside a ${flood} / without`,
    of: [`list of 50 beside a ${flood}`, 'ours'],
    over: ['list of 50 without a flood', 'ours'],
    column: 'p99Ms',
    atMost: 3,
  }
}

function besideDeliverer(subject: string, atLeast: number): Comparison {
  return {
    part: 'deliveries',
    text: `deliveries: ours / ${subject}`,
    of: ['deliver', 'ours'],
    over: ['deliver', subject],
    atLeast,
  }
}
