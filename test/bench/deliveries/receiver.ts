// Subscribers in a separate process: a server for each endpoint, all on 127.0.0.1. Reports the ports and, on request, the arrival
// times of events (CLOCK_MONOTONIC, shared by all processes of a machine).
//
//   node --import tsx receiver.ts '{"healthy":19,"silent":1,"failing":0}'

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

const { healthy, silent, failing } = JSON.parse(process.argv[2] ?? '{}') as {
  readonly healthy: number
  readonly silent: number
  readonly failing: number
}
const arrivals: [eventId: string, atNs: string][] = []

function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

const answering = Array.from({ length: healthy }, () =>
  createServer((request, response) => {
    arrivals.push([String(request.headers['x-service-event-id']), String(process.hrtime.bigint())])
    request.resume().on('end', () => response.end())
  }),
)
const refusing = Array.from({ length: failing }, () =>
  createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(500, { Connection: 'close' }).end())
  }),
)
const hanging = Array.from({ length: silent }, () => createServer((request) => void request.resume()))

process.on('message', () => process.send?.({ arrivals: arrivals.splice(0) }))
process.on('disconnect', () => process.exit())
process.send?.({
  healthy: await Promise.all(answering.map(listen)),
  silent: await Promise.all(hanging.map(listen)),
  failing: await Promise.all(refusing.map(listen)),
})
