import { type Child, startChild } from './children.ts'
import type { Sample } from './figures.ts'
import { coresSince, readCpu, readRssMb } from './machine.ts'
import type { Load, LoadOutcome } from './programs/load.ts'

// Runs of the load on servers in separate processes.

const ANSWER_TIMEOUT_MS = 20_000

/** An HTTP server under measurement. */
export interface Server {
  readonly subject: string
  readonly port: number
  readonly pid: number
}

const PROGRAMS: Readonly<Record<string, readonly [program: string, ...args: string[]]>> = {
  ours: ['ours'],
  Fastify: ['fastify'],
  'Fastify, limited': ['fastify', 'limited'],
  Express: ['express'],
}
/** The names of all servers. */
export const SUBJECTS = Object.keys(PROGRAMS)

/** Starts servers on one database. */
export async function startServers(url: string, subjects: readonly string[] = SUBJECTS): Promise<Server[]> {
  const servers: Server[] = []
  for (const subject of subjects) {
    const [program, ...args] = PROGRAMS[subject] ?? [subject]
    const { first, pid } = await startChild(program, [url, ...args])
    servers.push({ subject, pid, port: Number(first.port) })
  }
  return servers
}

/** Starts the program that loads servers, in a process of its own. */
export function startLoad(): Promise<Child> {
  return startChild('load')
}

/** A load without the port, which depends on the server. */
export type LoadKind = Pick<Load, 'connections' | 'method' | 'path' | 'keys'> & Partial<Load>

/**
 * Runs a load on a server.
 *
 * @param statuses of the answers that count, and of other answers that may come
 * @throws when an answer has another status
 */
export async function measure(
  load: Child,
  server: Server,
  kind: LoadKind & Pick<Load, 'seconds'>,
  statuses: readonly [counted: string, ...others: string[]] = ['200'],
): Promise<Sample & { readonly count: number; readonly perSecond: number }> {
  const before = readCpu([server.pid])
  const message: Load = { port: server.port, ...kind }
  const { outcome } = await load.ask<{ outcome: LoadOutcome }>(
    message,
    kind.seconds * 1000 + ANSWER_TIMEOUT_MS,
  )
  const count = outcome.statuses[statuses[0]] ?? 0
  if (count === 0 || Object.keys(outcome.statuses).some((status) => !statuses.includes(status)))
    throw new Error(
      `${server.subject} answered ${JSON.stringify(outcome.statuses)} instead of ${statuses[0]}`,
    )
  return {
    count,
    perSecond: count / outcome.seconds,
    p50Ms: outcome.p50Ms,
    p99Ms: outcome.p99Ms,
    loadCores: outcome.cores,
    ...coresSince(before, readCpu([server.pid])),
    rssMb: readRssMb([server.pid]),
  }
}
