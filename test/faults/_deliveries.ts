import assert from 'node:assert/strict'
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import postgres, { type Sql } from 'postgres'
import { createIds } from '../../lib/base/ids.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { ENDPOINT_DEFAULTS } from '../../lib/webhooks/endpoint-choices.ts'
import { toTimestamp } from '../../lib/writes/write-context.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase } from '../_database.ts'
import { programArguments } from '../_program.ts'
import type { DelivererConfig } from './_deliverer.ts'
import type { Arrival, Counts, ReceiverConfig } from './_receiver.ts'

// Delivery loops and subscribers in separate processes around a shared database.

// --- The scene ---

/**
 * A database with publishers in this process, and subscribers and deliverers in separate processes. Everything ends with the test
 * or the file.
 */
export interface Scene {
  readonly databaseUrl: string
  readonly sql: Sql
  readonly store: PostgresStore
  readonly receiver: Receiver
  /** Has the events of an organization sent to a subscriber: `answering`, `slow?ms=100` … as _receiver.ts has it. */
  subscribe(organizationId: string, behaviour: string): Promise<void>
  /** Starts `_deliverer.ts`, by default on this database. */
  startDeliverer(config?: Partial<DelivererConfig>): Promise<Deliverer>
}

/** A test, or a file. */
export interface Lifetime {
  after(end: () => Promise<void>): void
}

/** The subscribers of a scene. */
export interface Receiver {
  counts(): Promise<Counts>
  ledger(): Promise<readonly Arrival[]>
  /** Lets the `gated` subscribers hold their requests until `release`. */
  hold(): Promise<void>
  release(): Promise<void>
}

/** A running delivery loop. */
export interface Deliverer {
  signal(signal: NodeJS.Signals): void
  /** Resolves when the process has ended and all output has been read. */
  readonly ended: Promise<unknown>
  /** The exit code 0, or the signal; null while the process runs. */
  readonly exit: number | NodeJS.Signals | null
  /** Fails for any output but the log lines of a loop whose store or subscriber is away. */
  assertUnharmed(): void
}

const SECRET = 'whsec_faults'
const ids = createIds()

/** @param url of a migrated and empty database; default a new database */
export async function setScene(context: Lifetime, url?: string): Promise<Scene> {
  const programs: Promise<Program>[] = []
  let hasEnded = false
  const database = url === undefined ? await createTestDatabase() : undefined
  const databaseUrl = url ?? database?.url ?? ''
  const sql = postgres(databaseUrl, { max: 4, onnotice: () => {} })
  const store = createPostgresStore(databaseUrl)

  async function start(file: string, config: object): Promise<Program> {
    // The remains of a failed test must not start a process that no test ends.
    if (hasEnded) throw new Error(`Cannot start ${file} because the test has ended`)
    const program = startProgram(file, config)
    programs.push(program)
    return program
  }

  context.after(async () => {
    hasEnded = true
    await Promise.allSettled(programs.map(async (program) => endProgram(await program)))
    await sql.end({ timeout: 1 })
    await store.close()
    await database?.drop()
  })

  const config: ReceiverConfig = { secret: SECRET }
  const { firstLine } = await start('_receiver.ts', config)
  const origin = `http://127.0.0.1:${JSON.parse(firstLine).port}`

  return {
    databaseUrl,
    sql,
    store,
    receiver: {
      counts: () => ask<Counts>(`${origin}/counts`),
      ledger: () => ask<Arrival[]>(`${origin}/ledger`),
      hold: () => ask<void>(`${origin}/hold`),
      release: () => ask<void>(`${origin}/release`),
    },
    async subscribe(organizationId, behaviour) {
      await store.endpoints.insert({
        organizationId,
        limit: 1000,
        endpoint: {
          id: ids('we'),
          url: `${origin}/${behaviour}`,
          ...ENDPOINT_DEFAULTS,
          headerNames: [],
          sealedHeaders: null,
          createdAt: toTimestamp(Date.now()),
          sealedSecret: `plain.${SECRET}`,
        },
        entry: newEntry(),
      })
    },
    async startDeliverer(changes) {
      return createDeliverer(await start('_deliverer.ts', { databaseUrl, ...changes }))
    },
  }
}

/** Over a new connection, because a kept connection could end during the request. */
async function ask<T>(url: string): Promise<T> {
  const answer = await fetch(url, { headers: { connection: 'close' } })
  return (await answer.json()) as T
}

// --- Programs ---

type Child = ChildProcessByStdio<Writable, Readable, Readable>

interface Program {
  readonly child: Child
  readonly firstLine: string
  readonly ended: Promise<unknown>
  stderr(): string
}

const START_TIMEOUT_MS = 60_000

/** Resolves with the first line of the program. */
async function startProgram(file: string, config: object): Promise<Program> {
  const path = join(import.meta.dirname, file)
  const child = spawn(process.execPath, [...programArguments(path), JSON.stringify(config)], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let written = ''
  child.stderr.on('data', (chunk: Buffer) => {
    written += chunk.toString()
  })
  const ended = once(child, 'close')
  const timer = setTimeout(() => child.kill('SIGKILL'), START_TIMEOUT_MS)
  const [firstLine] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    ended.then(() => Promise.reject(new Error(`Cannot start ${file}: ${written}`))),
  ])
  clearTimeout(timer)
  return { child, ended, firstLine: String(firstLine), stderr: () => written }
}

/** Also a frozen process. */
async function endProgram({ child, ended }: Program): Promise<void> {
  child.kill('SIGKILL')
  await ended
}

function createDeliverer({ child, ended, stderr }: Program): Deliverer {
  return {
    signal: (signal) => void child.kill(signal),
    ended,
    get exit() {
      return child.exitCode ?? child.signalCode
    },
    assertUnharmed() {
      const lines = stderr().split('\n').filter(Boolean)
      assert.deepEqual(
        lines.filter((line) => !isExpected(line)),
        [],
        'a deliverer wrote to stderr',
      )
    },
  }
}

/** True for a line of the loop about an unreachable store, or about a subscriber that fails on request. */
function isExpected(line: string): boolean {
  try {
    const { message, error } = JSON.parse(line)
    if (message === 'Webhook endpoint failing') return true
    const code = error.code ?? error.causeCode
    return message === 'Webhook deliveries held up' && code === 'store_unavailable'
  } catch {
    return false
  }
}
