import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '../../examples/demo/postgres-machine.ts'
import type { TestDatabase } from '../_database.ts'
import { isListening } from '../_waiting.ts'
import { until } from './_fixture.ts'

const PROGRAM = process.env.PGDOG ?? 'pgdog'

/** The options of a test that needs PgDog. It has no package, so the variable PGDOG names the binary. */
export const WITH_PGDOG: { readonly skip: string | false } = {
  skip: spawnSync(PROGRAM, ['--version']).error ? `there is no program ${PROGRAM}: set PGDOG` : false,
}

/** A running PgDog with the settings of lib/postgres/SHARDS.md. */
export interface PgDog {
  /** Connection string of one of the databases `a`, `b` and `c`, which are the shards, or of `own`, which is all of them. */
  urlOf(database: string): string
  /** Makes it read its settings again, and forget where organizations are. */
  reload(): Promise<void>
  close(): Promise<void>
}

const PAGE = join(import.meta.dirname, '../../lib/postgres/SHARDS.md')
const HOSTS = ['one', 'two', 'three']

/**
 * Starts PgDog in front of up to three databases.
 *
 * @param size connections to each database
 */
export async function startPgDog(
  databases: readonly Pick<TestDatabase, 'url'>[],
  size: number,
): Promise<PgDog> {
  const page = await readFile(PAGE, 'utf8')
  const [settings = '', users = ''] = [...page.matchAll(/^```toml\n(.*?)^```$/gms)].map(([, text]) => text)
  const targets = HOSTS.map((_, index) => new URL((databases[index] ?? databases[0])?.url ?? ''))
  const { username, password } = targets[0] as URL
  const port = await findFreePort()
  const folder = await mkdtemp(join(tmpdir(), 'pgdog-'))
  const files = [join(folder, 'pgdog.toml'), join(folder, 'users.toml')] as const
  const read = settings
    .replace('[general]', `[general]\nhost = "127.0.0.1"\nport = ${port}\ndefault_pool_size = ${size}`)
    .replace(/host = "(\w+)", database_name = "app"/g, (_, host) => {
      const { hostname, port, pathname } = targets[HOSTS.indexOf(host)] as URL
      return `host = "${hostname}", port = ${port || 5432}, database_name = "${pathname.slice(1)}"`
    })
  await writeFile(files[0], read)
  await writeFile(files[1], users.replace('"app"', `"${username}"`).replace('"secret"', `"${password}"`))
  const child = spawn(PROGRAM, ['--config', files[0], '--users', files[1]], { cwd: folder })
  let log = ''
  for (const output of [child.stdout, child.stderr]) {
    output.on('data', (chunk: Buffer) => {
      log += chunk.toString()
    })
  }
  await until(
    'PgDog listens',
    () => {
      if (child.exitCode !== null) throw new Error(`Cannot start PgDog: ${log}`)
      return isListening(port)
    },
    10_000,
  )
  return {
    urlOf: (database) => `postgres://${username}:${password}@127.0.0.1:${port}/${database}`,
    async reload() {
      const before = log.length
      child.kill('SIGHUP')
      await until('PgDog has reloaded', () => /loaded schema.*shard 2/.test(log.slice(before)), 10_000)
    },
    close: async () => {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
      await rm(folder, { recursive: true })
    },
  }
}
