import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

// Healthy subscribers, each a server. Counts distinct events and keeps the times of the first and the last arrival.
//
//   node receiver.js 10

let seen = new Set<string>()
let firstAt = 0
let lastAt = 0

function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

const servers = Array.from({ length: Number(process.argv[2]) }, () =>
  createServer((request, response) => {
    lastAt = performance.now()
    if (seen.size === 0) firstAt = lastAt
    seen.add(String(request.headers['x-service-event-id']))
    request.resume().on('end', () => response.end())
  }),
)

process.on('message', ({ reset }: { readonly reset?: true }) => {
  if (reset) seen = new Set()
  process.send?.({ count: seen.size, seconds: (lastAt - firstAt) / 1000 })
})
process.on('disconnect', () => process.exit())
process.send?.({ ports: await Promise.all(servers.map(listen)) })
