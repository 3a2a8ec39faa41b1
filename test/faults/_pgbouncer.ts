import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '../../examples/demo/postgres-machine.ts'
import type { TestDatabase } from '../_database.ts'
import { isListening } from '../_waiting.ts'
import { until } from './_fixture.ts'

/** The options of a test that needs PgBouncer, which Debian has as a package. */
export const WITH_PGBOUNCER: { readonly skip: string | false } = {
  skip: spawnSync('pgbouncer', ['--version']).error ? 'there is no program pgbouncer' : false,
}

/** A running PgBouncer. */
export interface PgBouncer {
  /** Connection string by way of PgBouncer. */
  readonly url: string
  /** What the process has logged. */
  log(): string
  close(): Promise<void>
}

/**
 * Starts PgBouncer in transaction mode in front of a database, with the time limits that the store cannot set there.
 *
 * @param size connections to the server
 */
export async function startPgBouncer(database: Pick<TestDatabase, 'url'>, size: number): Promise<PgBouncer> {
  const { hostname, port, username, password, pathname } = new URL(database.url)
  const ownPort = await findFreePort()
  const folder = await mkdtemp(join(tmpdir(), 'pgbouncer-'))
  await chmod(folder, 0o755)
  const settings = join(folder, 'pgbouncer.ini')
  await writeFile(
    settings,
    `[databases]
${pathname.slice(1)} = host=${hostname} port=${port || 5432} user=${username} password=${password} connect_query='set lock_timeout = 4000; set statement_timeout = 10000'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${ownPort}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${size}
max_client_conn = 200
server_login_retry = 1
`,
  )
  // PgBouncer refuses to run as root.
  const isRoot = process.getuid?.() === 0
  const child = spawn('pgbouncer', [...(isRoot ? ['-u', 'nobody'] : []), settings], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let log = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    log += chunk.toString()
  })
  await until(
    'PgBouncer listens',
    () => {
      if (child.exitCode !== null) throw new Error(`Cannot start PgBouncer: ${log}`)
      return isListening(ownPort)
    },
    10_000,
  )
  return {
    url: `postgres://anybody@127.0.0.1:${ownPort}${pathname}`,
    log: () => log,
    close: async () => {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
      await rm(folder, { recursive: true })
    },
  }
}
