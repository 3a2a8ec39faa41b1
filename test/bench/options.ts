import { parseArgs } from 'node:util'

/** The parts of the benchmark, in the order of a run. */
export const PARTS = ['lists', 'creates', 'floods', 'statement', 'deliveries', 'together'] as const
/** The name of a part of the benchmark. */
export type PartName = (typeof PARTS)[number]

/** The arguments of a run. */
export interface BenchOptions {
  /** Default 5. */
  readonly rounds: number
  /** Of each measurement. Default 5. */
  readonly seconds: number
  /** Of the load. Default 32; fewer for a trial on a busy machine. */
  readonly connections: number
  /** Default: all parts. */
  readonly only: readonly PartName[]
}

/** Reads `--rounds 5 --seconds 5 --only lists,creates`. @throws naming the argument that cannot be used */
export function readOptions(args: readonly string[]): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '5' },
      connections: { type: 'string', default: '32' },
      only: { type: 'string', multiple: true, default: [...PARTS] },
    },
  })
  const names = values.only.flatMap((text) => text.split(','))
  const unknown = names.find((name) => !PARTS.some((part) => part === name))
  if (unknown !== undefined)
    throw new Error(`Cannot run "${unknown}": --only takes names of ${PARTS.join(', ')}`)
  return {
    rounds: readCount('--rounds', values.rounds, 100),
    seconds: readCount('--seconds', values.seconds, 600),
    connections: readCount('--connections', values.connections, 1000),
    only: PARTS.filter((part) => names.includes(part)),
  }
}

/** Reads a whole number from 1. @throws naming the argument */
export function readCount(name: string, text: string, max: number): number {
  const count = Number(text)
  if (Number.isInteger(count) && count >= 1 && count <= max) return count
  throw new Error(`Cannot use ${name} ${text}: ${name} must be a whole number from 1 to ${max}`)
}
