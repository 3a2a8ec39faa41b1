// One prepared statement again and again over a few connections: the protocol alone, without a driver's parsing. pg opens and
// authenticates the connections.

import type { Socket } from 'node:net'
import pg from 'pg'

/** A run of a statement. */
export interface RawRun {
  readonly text: string
  readonly values: readonly (string | null)[]
  readonly seconds: number
  readonly clients: number
}

async function run({ text, values, seconds, clients }: RawRun): Promise<object> {
  const opened = await Promise.all(Array.from({ length: clients }, () => open(process.argv[2] ?? '')))
  const usageBefore = process.cpuUsage()
  const beganAt = performance.now()
  const endsAt = beganAt + seconds * 1000
  const parse = message('P', cString('one'), cString(text), Buffer.alloc(2))
  const counts = await Promise.all(
    opened.map(({ socket }) => repeat(socket, parse, execution(values), endsAt)),
  )
  const tookSeconds = (performance.now() - beganAt) / 1000
  const { user, system } = process.cpuUsage(usageBefore)
  for (const { socket } of opened) socket.destroy()
  const count = counts.reduce((sum, one) => sum + one, 0)
  return { perSecond: count / tookSeconds, cores: (user + system) / 1e6 / tookSeconds }
}

async function open(url: string): Promise<{ readonly socket: Socket }> {
  const client = new pg.Client(url)
  await client.connect()
  const { stream } = (client as unknown as { readonly connection: { readonly stream: Socket } }).connection
  stream.removeAllListeners('data').removeAllListeners('end').removeAllListeners('close')
  return { socket: stream }
}

/** Executes after each answer. @returns the number of answers */
function repeat(socket: Socket, parse: Buffer, next: Buffer, endsAt: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let count = 0
    let rest: Buffer = Buffer.alloc(0)
    socket.on('error', reject)
    socket.on('data', (chunk: Buffer) => {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      let at = 0
      while (rest.length - at >= 5 && rest.length - at > rest.readUInt32BE(at + 1)) {
        const [type, length] = [rest[at], rest.readUInt32BE(at + 1)]
        if (type === ERROR)
          return reject(new Error(rest.toString('utf8', at + 5, at + 1 + length).replaceAll('\0', ' ')))
        at += 1 + length
        if (type !== READY) continue
        count += 1
        if (performance.now() >= endsAt) resolve(count)
        else socket.write(next)
      }
      rest = rest.subarray(at)
    })
    socket.write(Buffer.concat([parse, next]))
  })
}

const READY = 'Z'.charCodeAt(0)
const ERROR = 'E'.charCodeAt(0)

/** Bind, Execute and Sync, with all values as text. */
function execution(values: readonly (string | null)[]): Buffer {
  const bound = values.map((value) => {
    if (value === null) return int32(-1)
    const bytes = Buffer.from(value)
    return Buffer.concat([int32(bytes.length), bytes])
  })
  const bind = message('B', cString(''), cString('one'), int16(0), int16(values.length), ...bound, int16(0))
  return Buffer.concat([bind, message('E', cString(''), int32(0)), message('S')])
}

function message(type: string, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body])
}

function cString(text: string): Buffer {
  return Buffer.from(`${text}\0`)
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}

process.on('message', (given: RawRun) => {
  run(given).then(
    (outcome) => process.send?.(outcome),
    (error: Error) => process.send?.({ error: error.message }),
  )
})
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })
