import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { CapturedStatement } from './captured-statement.ts'
import { startChild } from './children.ts'
import type { Sample } from './figures.ts'
import { hasProgram } from './machine.ts'
import type { RawRun } from './programs/raw-statement.ts'

/** Runs one statement alone, prepared, over a few connections. */
export interface StatementRunner {
  readonly name: string
  run(seconds: number): Promise<Sample>
}

const CLIENTS = 8
const GRACE_MS = 20_000
const run = promisify(execFile)

/** Runs a statement with pgbench where pgbench is on the path, else over raw connections of our own. */
export async function openStatementRunner(
  url: string,
  statement: CapturedStatement,
): Promise<StatementRunner> {
  // pgbench takes a colon before a letter for a variable of its own.
  const isSafe = !/(?<!:):[a-z_]/i.test(statement.text)
  return hasProgram('pgbench') && isSafe ? openPgbench(url, statement) : openRaw(url, statement)
}

function openPgbench(url: string, { text, values }: CapturedStatement): StatementRunner {
  const script = text.replaceAll(/\$(\d+)/g, (_, number) => placeholderOf(values[Number(number) - 1], number))
  const definitions = values.flatMap((value, index) =>
    value === null ? [] : ['-D', `p${index + 1}=${value}`],
  )
  return {
    name: 'pgbench',
    async run(seconds) {
      const directory = await mkdtemp(join(tmpdir(), 'bench-statement-'))
      try {
        const file = join(directory, 'statement.sql')
        await writeFile(file, `${script};\n`)
        const args = ['-n', '-M', 'prepared', '-f', file, '-c', String(CLIENTS), '-T', String(seconds)]
        const { stdout } = await run('pgbench', [...args, ...definitions, url], {
          timeout: seconds * 1000 + GRACE_MS,
        })
        const perSecond = Number(/tps = ([\d.]+)/.exec(stdout)?.[1])
        const failed = Number(/number of failed transactions: (\d+)/.exec(stdout)?.[1] ?? 0)
        if (!(perSecond > 0) || failed > 0) throw new Error(`pgbench has failed: ${stdout}`)
        return { perSecond }
      } finally {
        await rm(directory, { recursive: true, force: true })
      }
    },
  }
}

function placeholderOf(value: string | null | undefined, number: string): string {
  return value === null ? 'null' : `:p${number}`
}

async function openRaw(url: string, statement: CapturedStatement): Promise<StatementRunner> {
  const child = await startChild('raw-statement', [url])
  return {
    name: 'raw connections',
    async run(seconds) {
      const message: RawRun = { ...statement, seconds, clients: CLIENTS }
      const { perSecond, cores } = await child.ask<{ perSecond: number; cores: number }>(
        message,
        seconds * 1000 + GRACE_MS,
      )
      return { perSecond, loadCores: cores }
    },
  }
}
