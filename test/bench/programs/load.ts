// Requests over kept connections, one at a time on each, in a separate process. Requests are made beforehand and answers are only
// measured, not parsed, so that the load costs little beside a server. With a pace, requests are sent when due, and a late answer
// counts from the due time.

import { connect, type Socket } from 'node:net'
import { createAnswerMeter } from './answer-meter.ts'

/** A run of the load. */
export interface Load {
  readonly port: number
  readonly connections: number
  readonly seconds: number
  /** Default: as fast as the answers come. */
  readonly perSecond?: number
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** API keys, used in turn. */
  readonly keys: readonly string[]
  /** Sent with an idempotency key, which is new for each request. */
  readonly body?: string
}

/** The outcome of a run. */
export interface LoadOutcome {
  /** The number of answers, by status. */
  readonly statuses: Readonly<Record<string, number>>
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** The processor time of the load, in seconds for each second. */
  readonly cores: number
}

/** The place of the digits that make an idempotency key new. */
const DIGITS = '000000000000'
/** An answer that has not come this long after the end fails the run. */
const GRACE_MS = 10_000

let made = 0

function makeRequests({ method, path, keys, body }: Load): Buffer[] {
  return keys.map((key) => {
    const head = [`${method} ${path} HTTP/1.1`, 'Host: 127.0.0.1', `Authorization: Bearer ${key}`]
    if (body === undefined) return Buffer.from(`${head.join('\r\n')}\r\n\r\n`)
    head.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`)
    head.push(`Idempotency-Key: bench-${process.pid}-${DIGITS}`)
    return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`)
  })
}

/** Copies a request, because a connection may still be sending the original. */
function withNewKey(request: Buffer): Buffer {
  const copy = Buffer.from(request)
  copy.write(String(made++).padStart(DIGITS.length, '0'), copy.indexOf(DIGITS), 'latin1')
  return copy
}

async function run(load: Load): Promise<LoadOutcome> {
  const requests = makeRequests(load)
  const sockets = await Promise.all(Array.from({ length: load.connections }, () => open(load.port)))
  const usageBefore = process.cpuUsage()
  const beganAt = performance.now()
  const pace = load.perSecond === undefined ? createFullPace(load) : createSteadyPace(load, load.perSecond)
  const statuses: Record<string, number> = {}
  const tookMs: number[] = []
  let turn = 0
  const nextRequest = (): Buffer => {
    const request = requests[turn++ % requests.length] ?? Buffer.alloc(0)
    return load.body === undefined ? request : withNewKey(request)
  }
  const onAnswer = (status: string, ms: number): void => {
    statuses[status] = (statuses[status] ?? 0) + 1
    tookMs.push(ms)
  }
  const late = withResolvers()
  const timer = setTimeout(
    () => late.reject(new Error('An answer has not come')),
    load.seconds * 1000 + GRACE_MS,
  )
  const conversations = sockets.map((socket) => converse({ socket, pace, nextRequest, onAnswer }))
  try {
    await Promise.race([Promise.all(conversations), late.promise])
  } finally {
    clearTimeout(timer)
    pace.stop()
    for (const socket of sockets) socket.removeAllListeners('close').destroy()
  }
  const seconds = (performance.now() - beganAt) / 1000
  const { user, system } = process.cpuUsage(usageBefore)
  const sorted = Float64Array.from(tookMs).sort()
  const percentile = (share: number): number => sorted[Math.floor(sorted.length * share)] ?? Number.NaN
  const cores = (user + system) / 1e6 / seconds
  return { statuses, seconds, p50Ms: percentile(0.5), p99Ms: percentile(0.99), cores }
}

interface Conversation {
  readonly socket: Socket
  readonly pace: Pace
  readonly nextRequest: () => Buffer
  readonly onAnswer: (status: string, ms: number) => void
}

/** Sends requests on one connection, each after the previous answer, until the pace ends. */
async function converse({ socket, pace, nextRequest, onAnswer }: Conversation): Promise<void> {
  const meter = createAnswerMeter()
  let dueAt: number | null = null
  const sendNext = async (): Promise<void> => {
    dueAt = await pace.next()
    if (dueAt === null) ended.resolve()
    else socket.write(nextRequest())
  }
  const ended = withResolvers()
  socket.setNoDelay(true)
  socket.on('error', ended.reject)
  socket.on('close', () => ended.reject(new Error('The server closed a kept connection')))
  socket.on('data', (chunk: Buffer) => {
    try {
      const status = meter.take(chunk)
      if (status === null) return
      onAnswer(status, performance.now() - (dueAt ?? Number.NaN))
      void sendNext()
    } catch (cause) {
      ended.reject(cause)
    }
  })
  void sendNext()
  await ended.promise
}

/** Says when requests are due. */
interface Pace {
  /** The time at which the next request was due, once the request is due; null after the end. */
  next(): Promise<number | null> | number | null
  stop(): void
}

function createFullPace({ seconds }: Load): Pace {
  const endsAt = performance.now() + seconds * 1000
  return {
    next() {
      const now = performance.now()
      return now < endsAt ? now : null
    },
    stop() {},
  }
}

/** A due request waits while no connection is idle. */
function createSteadyPace({ seconds }: Load, perSecond: number): Pace {
  const beganAt = performance.now()
  const total = seconds * perSecond
  const idle: ((dueAt: number | null) => void)[] = []
  const dueTimes: number[] = []
  let count = 0
  const timer = setInterval(() => {
    for (; count < total; count++) {
      const dueAt = beganAt + (count * 1000) / perSecond
      if (dueAt > performance.now()) return
      const give = idle.pop()
      if (give === undefined) dueTimes.push(dueAt)
      else give(dueAt)
    }
    for (const give of idle.splice(0)) give(null)
  }, 1)
  return {
    next() {
      const dueAt = dueTimes.shift()
      if (dueAt !== undefined) return dueAt
      return count >= total ? null : new Promise((resolve) => idle.push(resolve))
    },
    stop: () => clearInterval(timer),
  }
}

function withResolvers(): {
  readonly promise: Promise<void>
  readonly resolve: () => void
  readonly reject: (cause: unknown) => void
} {
  let resolve = (): void => {}
  let reject = (_cause: unknown): void => {}
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.once('connect', () => resolve(socket)).once('error', reject)
  })
}

process.on('message', (load: Load) => {
  run(load).then(
    (outcome) => process.send?.({ outcome }),
    (error: Error) => process.send?.({ error: error.message }),
  )
})
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })
