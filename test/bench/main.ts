// npm run bench -- --rounds 5 --seconds 5 --only lists,creates
//
// Each part runs on a fresh database and replaces only the figures of that part in results/figures.json. The subjects of a part
// take turns in each round, so that a drift of the machine's speed affects all alike; read the ratios.

import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { drawChart } from './chart.ts'
import { stopChildren } from './children.ts'
import { fillDatabase, startDatabase } from './database.ts'
import { createCollector, type Figures, type PartFigures } from './figures.ts'
import { describeMachine } from './machine.ts'
import { type BenchOptions, PARTS, type PartName, readOptions } from './options.ts'
import { creates } from './parts/creates.ts'
import { deliveries } from './parts/deliveries.ts'
import { floods } from './parts/floods.ts'
import { lists } from './parts/lists.ts'
import type { Part } from './parts/part.ts'
import { statement } from './parts/statement.ts'
import { together } from './parts/together.ts'
import { reportFigures } from './report.ts'

const RUNS: Readonly<Record<PartName, Part>> = { lists, creates, floods, statement, deliveries, together }
const RESULTS = join(import.meta.dirname, 'results')
/** A part that takes longer has met something that never comes. */
const PART_TIMEOUT_MS = 45 * 60_000

async function runPart(name: PartName, options: BenchOptions): Promise<PartFigures> {
  const machine = describeMachine()
  const database = await startDatabase()
  const collector = createCollector()
  let timer: NodeJS.Timeout | undefined
  try {
    const keys = await fillDatabase(database)
    const tooLong = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`${name} has not ended in time`)), PART_TIMEOUT_MS)
    })
    const say = (text: string): void => console.log(text)
    await Promise.race([RUNS[name]({ options, database, keys, collector, say }), tooLong])
  } finally {
    clearTimeout(timer)
    await stopChildren()
    await database.stop()
  }
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: `${machine}; ${database.description}`,
    rounds: options.rounds,
    seconds: options.seconds,
    connections: options.connections,
    series: collector.series,
    leftOut: collector.leftOut,
  }
}

async function readFigures(path: string): Promise<Figures> {
  const text = await readFile(path, 'utf8').catch(() => '{}')
  return JSON.parse(text)
}

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2))
  const path = join(RESULTS, 'figures.json')
  await mkdir(RESULTS, { recursive: true })
  for (const name of options.only) {
    const part = await runPart(name, options)
    const known = { ...(await readFigures(path)), [name]: part }
    const figures = Object.fromEntries(
      PARTS.flatMap((one) => (known[one] === undefined ? [] : [[one, known[one]] as const])),
    )
    await writeFile(path, `${JSON.stringify(figures, null, 2)}\n`)
    await writeFile(join(RESULTS, 'chart.svg'), drawChart(figures))
  }
  console.log(`\n${reportFigures(await readFigures(path))}`)
}

await main()
