// Callers without a valid key, in a separate process of low priority: on a real network such callers have other processors. Each
// connection sends the next request right after an answer, and is opened anew after an end. Prints a line at the beginning, and
// on request the number of answers by status.
//
//   node --import tsx test/faults/_key-flooder.ts '{"port":3000,"connections":1200,"presents":"invented","addresses":1}'

import { connect } from 'node:net'
import { getPriority, setPriority } from 'node:os'
import { generateApiKey } from '../../lib/access/api-keys.ts'
import type { FloodConfig } from './_key-flood.ts'

const { port, connections, presents, addresses } = JSON.parse(process.argv[2] ?? '{}') as FloodConfig
const KEYS = 3000
const REOPEN_MS = 100

setPriority(Math.min(getPriority() + 10, 19))
const statuses: Record<string, number> = {}
const keys = Array.from({ length: KEYS }, () => generateApiKey('bapi', 0))
let sent = 0

function nextRequest(): string {
  const key = keys[sent++ % KEYS]
  const credentials = {
    invented: `Authorization: Bearer ${key}\r\n`,
    malformed: `Authorization: Bearer ${key}x\r\n`,
    nothing: '',
  }[presents]
  return `GET /api/v1/clients HTTP/1.1\r\nHost: flood\r\n${credentials}\r\n`
}

function open(index: number): void {
  const localAddress = `127.0.${1 + Math.floor((index % addresses) / 250)}.${1 + ((index % addresses) % 250)}`
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket.on('connect', () => socket.write(nextRequest()))
  // An answer is short and comes in a single piece.
  socket.on('data', (data) => {
    const status = data.toString('latin1', 9, 12)
    statuses[status] = (statuses[status] ?? 0) + 1
    socket.write(nextRequest())
  })
  socket.on('error', () => {})
  socket.on('close', () => setTimeout(open, REOPEN_MS, index))
}

process.send?.('ready')
process.on('message', () => process.send?.(statuses))
for (let index = 0; index < connections; index++) open(index)
process.on('disconnect', () => process.exit())
