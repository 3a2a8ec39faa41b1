import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { programFile } from '../_program.ts'

// A flood of callers without a valid key, and the callers beside the flood.

/** The arguments of a flood. */
export interface FloodConfig {
  readonly port: number
  readonly connections: number
  /** Invented keys with a good checksum, keys with a bad checksum, or no key. */
  readonly presents: 'invented' | 'malformed' | 'nothing'
  /** The number of addresses that the flood comes from. */
  readonly addresses: number
}

/** A flood under way. */
export interface Flood {
  /** Answers so far, by status. */
  statuses(): Promise<Readonly<Record<string, number>>>
  stop(): Promise<void>
}

/** Starts a flood. Resolves when the flood has begun. */
export async function startFlood(config: FloodConfig): Promise<Flood> {
  const child = fork(programFile(join(import.meta.dirname, '_key-flooder.ts')), [JSON.stringify(config)])
  await once(child, 'message')
  return {
    async statuses() {
      child.send('statuses')
      const [statuses] = await once(child, 'message')
      return statuses
    },
    async stop() {
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}

/** Answers to a caller: the milliseconds from each due time, and the statuses. */
export interface Answers {
  readonly tookMs: number[]
  readonly statuses: Set<number>
}

/** Sends requests at a fixed pace, whether the answers come or not. @param keyOf the key of each request */
export async function callSteadily(
  port: number,
  { count, perSecond }: { readonly count: number; readonly perSecond: number },
  keyOf: (index: number) => string,
): Promise<Answers> {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const answers: Answers = { tookMs: [], statuses: new Set() }
  const beganAt = performance.now()
  const calls: Promise<void>[] = []
  for (let index = 0; index < count; index++) {
    const dueAt = beganAt + (index * 1000) / perSecond
    await sleep(Math.max(0, dueAt - performance.now()))
    const call = async (): Promise<void> => {
      answers.statuses.add(await list(port, keyOf(index), agent))
      answers.tookMs.push(performance.now() - dueAt)
    }
    calls.push(call())
  }
  await Promise.all(calls)
  agent.destroy()
  return answers
}

/** Gives the status of one list. Sends it again on a new connection when the host has closed the kept one just then. */
export function list(port: number, key: string, agent?: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}` }
    const call = request({ port, host: '127.0.0.1', path: '/api/v1/clients', headers, agent }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    const onError = (error: Error): void => {
      if (call.reusedSocket) resolve(list(port, key))
      else reject(error)
    }
    call.on('error', onError).end()
  })
}
