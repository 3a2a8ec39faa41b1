import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchDatabase } from './database.ts'

/** A statement with the values of one execution. */
export interface CapturedStatement {
  /** With `$1`, `$2` … */
  readonly text: string
  /** As text; null for NULL. */
  readonly values: readonly (string | null)[]
}

/** The time until the server has read its configuration, and until its last log line has come. */
const SETTLE_MS = 1000

/**
 * Reads the most frequent statement of a piece of work from the log of the server, so that the benchmark runs the statement of
 * the present version whatever that is.
 */
export async function captureStatement(
  database: BenchDatabase,
  work: () => Promise<void>,
): Promise<CapturedStatement> {
  const lines: string[] = []
  database.onLog = (line) => void lines.push(line)
  await setLogging(database, 'all')
  await work()
  await setLogging(database, 'none')
  database.onLog = () => {}
  return findMostFrequent(lines)
}

/** Finds the most frequent statement in lines of a server's log, with the values of an execution in the middle by their length. */
export function findMostFrequent(lines: readonly string[]): CapturedStatement {
  const executions = new Map<string, CapturedStatement['values'][]>()
  for (const [text, parameters] of readExecutions(lines)) {
    const known = executions.get(text) ?? []
    executions.set(text, known)
    known.push(readValues(parameters))
  }
  const [most] = [...executions].sort(([, one], [, other]) => other.length - one.length)
  if (!most) throw new Error('Cannot find the list statement: the server has logged no execution')
  const [text, all] = most
  const bySize = all.toSorted((one, other) => sizeOf(one) - sizeOf(other))
  return { text, values: bySize[Math.floor(bySize.length / 2)] ?? [] }
}

function sizeOf(values: CapturedStatement['values']): number {
  return values.reduce((size, value) => size + (value?.length ?? 0), 0)
}

async function setLogging({ sql }: BenchDatabase, what: 'all' | 'none'): Promise<void> {
  await sql.unsafe(`alter system set log_statement = '${what}'`)
  await sql`select pg_reload_conf()`
  await sleep(SETTLE_MS)
}

/** Reads the executions of prepared statements: an entry for the text, followed by an entry for the values. */
function* readExecutions(lines: readonly string[]): Generator<readonly [text: string, parameters: string]> {
  // PostgreSQL puts a tab before each line of an entry but the first line.
  const entries = lines
    .join('\n')
    .split(/\n(?!\t)/)
    .map((entry) => entry.replaceAll('\n\t', '\n'))
  for (const [index, entry] of entries.entries()) {
    const text = /LOG: {2}execute [^:]*: ([\s\S]*)$/.exec(entry)?.[1]
    const parameters = /DETAIL: {2}Parameters: ([\s\S]*)$/i.exec(entries[index + 1] ?? '')?.[1]
    if (text !== undefined && parameters !== undefined) yield [text, parameters]
  }
}

function readValues(parameters: string): (string | null)[] {
  const values = [...parameters.matchAll(/\$\d+ = (?:NULL|'((?:[^']|'')*)')/g)]
  return values.map(([, value]) => value?.replaceAll("''", "'") ?? null)
}
