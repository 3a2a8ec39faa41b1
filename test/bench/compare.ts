// npm run bench:compare -- ../before --rounds 7 --seconds 3 --only lists,creates,deliveries --json compared.json
//
// Compares this checkout with another of the same project, such as a worktree at an earlier commit; both are built. Each has a
// database and processes of its own, filled by its own `dist`, on one PostgreSQL that syncs to disk. The two take turns as A, B, B, A,
// so that a drift of the machine affects both alike; a ratio is of the two turns of a round. Keys that run out of tokens fail the
// run: a turn of more than 5 seconds may be too long for a fast machine.

import { writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startChild, stopChildren } from './children.ts'
import { type Checkout, prepareSide, readCheckout, type Side } from './compared-sides.ts'
import { startDatabase } from './database.ts'
import { type MedianInterval, median, medianInterval } from './figures.ts'
import { type LoadKind, measure, startLoad } from './loading.ts'
import { describeMachine, readCpu, readTreeSeconds } from './machine.ts'
import { readCount } from './options.ts'
import { table } from './report.ts'

const PARTS = ['deliveries', 'lists', 'creates'] as const
const CONNECTIONS = 32
const CHILD_TIMEOUT_MS = 20_000
const RECEIVERS = 10
/** The backlog that shows the rate of deliveries, for each second. */
const FIRST_GUESS = 500

/** The figures of one turn. Processor time is in ms, and the write-ahead log in bytes, per request or delivery. */
interface Turn {
  readonly perSecond: number
  readonly processMs: number
  readonly postgresMs: number
  readonly walBytes: number
}

/** Prepares a piece of work, and returns the function that measures a side. */
type Work = () => Promise<(side: Side) => Promise<Turn>>

/** The outcome of a piece of work: medians of the turns, and the ratios this / other of the rounds. */
interface Comparison extends MedianInterval {
  readonly work: string
  readonly other: Turn
  readonly this: Turn
  readonly ratio: number
  readonly ratios: readonly number[]
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    only: { type: 'string', default: PARTS.join() },
    json: { type: 'string' },
  },
})
const rounds = readCount('--rounds', values.rounds, 100)
const seconds = readCount('--seconds', values.seconds, 60)
const only = values.only.split(',')
const [directory] = positionals
if (directory === undefined || positionals.length > 1)
  throw new Error('Cannot compare: name one other checkout, as in npm run bench:compare -- ../before')
const unknown = only.find((name) => !PARTS.some((part) => part === name))
if (unknown !== undefined)
  throw new Error(`Cannot run "${unknown}": --only takes names of ${PARTS.join(', ')}`)

const checkouts = [
  await readCheckout('other', directory),
  await readCheckout('this', new URL('../..', import.meta.url).pathname),
]
const machine = describeMachine()
const database = await startDatabase()
const sides: Side[] = []
try {
  const receiver = await startChild('receiver', [String(RECEIVERS)])
  const ports = receiver.first.ports as readonly number[]
  for (const checkout of checkouts) sides.push(await prepareSide(database, checkout, ports))
  const load = await startLoad()

  /** Adds the processor time of a process and of PostgreSQL, and the write-ahead log, to what a run counts. */
  const withCost = async (
    pid: number,
    run: () => Promise<{ readonly count: number; readonly perSecond: number }>,
  ): Promise<Turn> => {
    const read = async () => {
      const [{ bytes = 0 } = {}] = await database.sql<{ bytes: number }[]>`
        select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes`
      return { process: readCpu([pid]).ofProcesses, postgres: readTreeSeconds(database.pid), bytes }
    }
    const before = await read()
    const { count, perSecond } = await run()
    const after = await read()
    return {
      perSecond,
      processMs: ((after.process - before.process) * 1000) / count,
      postgresMs: ((after.postgres - before.postgres) * 1000) / count,
      walBytes: (after.bytes - before.bytes) / count,
    }
  }

  const request =
    (keysOf: (side: Side) => readonly string[], kind: Pick<LoadKind, 'method' | 'path' | 'body'>): Work =>
    async () => {
      const ask = (side: Side, duration: number): ReturnType<typeof measure> =>
        measure(load, side.server, {
          ...kind,
          connections: CONNECTIONS,
          keys: keysOf(side),
          seconds: duration,
        })
      for (const side of sides) await ask(side, 1)
      return (side) => withCost(side.server.pid, () => ask(side, seconds))
    }

  /** Delivers a backlog to subscribers that answer at once, by a process of its own. */
  const drain = async (side: Side, count: number): Promise<Turn> => {
    await side.publish(count)
    const loop = await startChild('our-deliverer', [side.url, side.dist])
    await receiver.ask({ reset: true }, CHILD_TIMEOUT_MS)
    const turn = await withCost(loop.pid, async () => {
      await loop.ask({ deliver: true }, CHILD_TIMEOUT_MS)
      const until = performance.now() + CHILD_TIMEOUT_MS + seconds * 10_000
      let arrived = { count: 0, seconds: 0 }
      while (arrived.count < count) {
        if (performance.now() > until)
          throw new Error(`${side.name}: only ${arrived.count} of ${count} events have arrived`)
        await sleep(25)
        arrived = await receiver.ask({}, CHILD_TIMEOUT_MS)
      }
      // The last results are written after the last arrival.
      await sleep(500)
      return { count, perSecond: count / arrived.seconds }
    })
    await loop.stop()
    const { count: all } = await receiver.ask<{ count: number }>({}, CHILD_TIMEOUT_MS)
    if (all !== count) throw new Error(`${side.name}: ${all} events have arrived instead of ${count}`)
    return turn
  }

  const list = { method: 'GET', path: '/api/v1/clients' } as const
  const create = {
    method: 'POST',
    path: '/api/v1/clients',
    body: '{"name":"Atlas Ceramics","city":"Tunis"}',
  } as const
  const one = (side: Side): readonly string[] => [side.keys.one]
  // Creates come last: no loop may meet the deliveries of creates, whose endpoint does not answer.
  const works: Readonly<Record<(typeof PARTS)[number], Readonly<Record<string, Work>>>> = {
    deliveries: {
      deliveries: async () => {
        const rates: number[] = []
        for (const side of sides) rates.push((await drain(side, FIRST_GUESS * seconds)).perSecond)
        const count = Math.ceil(Math.min(...rates) * seconds)
        return (side) => drain(side, count)
      },
    },
    lists: {
      'list of 50, one key': request(one, list),
      'list of 50, 200 organizations': request((side) => side.keys.many, list),
      'list of 1, one key': request(one, { ...list, path: '/api/v1/clients?limit=1' }),
    },
    creates: {
      'create, one key': request(one, create),
    },
  }

  const comparisons: Comparison[] = []
  for (const part of PARTS.filter((name) => only.includes(name))) {
    for (const [name, work] of Object.entries(works[part])) comparisons.push(await compare(name, work))
  }
  report(comparisons)
  if (values.json !== undefined) {
    const date = new Date().toISOString()
    const run = { date, machine, database: database.description, rounds, seconds, checkouts, comparisons }
    await writeFile(values.json, `${JSON.stringify(run, null, 2)}\n`)
  }
} finally {
  await stopChildren()
  for (const side of sides) await side.close()
  await database.stop()
}

async function compare(name: string, work: Work): Promise<Comparison> {
  const measureSide = await work()
  const turns: Record<Checkout['name'], Turn[]> = { other: [], this: [] }
  for (let round = 0; round < rounds; round++) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      turns[side.name].push(await measureSide(side))
    }
  }
  const ratios = turns.this.map(({ perSecond }, round) => perSecond / (turns.other[round]?.perSecond ?? NaN))
  const comparison = {
    work: name,
    other: medianTurn(turns.other),
    this: medianTurn(turns.this),
    ratio: median(ratios),
    ...medianInterval(ratios),
    ratios,
  }
  console.error(`${name}: ${comparison.ratio.toFixed(3)}`)
  return comparison
}

function medianTurn(turns: readonly Turn[]): Turn {
  const of = (column: keyof Turn): number => median(turns.map((turn) => turn[column]))
  return {
    perSecond: of('perSecond'),
    processMs: of('processMs'),
    postgresMs: of('postgresMs'),
    walBytes: of('walBytes'),
  }
}

function report(comparisons: readonly Comparison[]): void {
  const confidence = ((comparisons[0]?.confidence ?? NaN) * 100).toFixed(0)
  console.log(`${machine}; ${database.description}`)
  for (const { name, commit, directory } of checkouts) console.log(`${name}: ${commit}, ${directory}`)
  console.log(
    `medians of ${rounds} rounds of ${seconds} s; this / other with the ${confidence} % interval of the median; ` +
      'processor time in ms and write-ahead log in bytes per request or delivery, other → this',
  )
  const rows = comparisons.map(({ work, other, this: own, ratio, low, high }) => [
    work,
    '',
    other.perSecond.toFixed(0),
    own.perSecond.toFixed(0),
    ratio.toFixed(3),
    `${low.toFixed(3)}-${high.toFixed(3)}`,
    `${other.processMs.toFixed(3)} → ${own.processMs.toFixed(3)}`,
    `${other.postgresMs.toFixed(3)} → ${own.postgresMs.toFixed(3)}`,
    `${other.walBytes.toFixed(0)} → ${own.walBytes.toFixed(0)}`,
  ])
  const titles = [
    '',
    '',
    'other/s',
    'this/s',
    'ratio',
    'interval',
    'process ms',
    'PostgreSQL ms',
    'WAL bytes',
  ]
  for (const line of table([titles, ...rows])) console.log(line)
}
