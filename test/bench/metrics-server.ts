// The API in a separate process, for metrics.ts: counts with the message `with`, and stops counting with `without`. Each message is
// answered with the processor time of the process so far, in microseconds. Ends with the parent process.
//
//   node --import tsx metrics-server.ts postgres://…

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createBusinessApi } from '../../lib/index.ts'
import { createMetrics, type Metrics } from '../../lib/metrics.ts'
import { createPostgresStore } from '../../lib/postgres.ts'

const store = createPostgresStore(process.argv[2] ?? '')
const server = createServer(createBusinessApi(store))
let metrics: Metrics | undefined

process.on('message', (message) => {
  if (message === 'with') metrics ??= createMetrics(store)
  if (message === 'without') {
    metrics?.close()
    metrics = undefined
  }
  const { user, system } = process.cpuUsage()
  process.send?.(user + system)
})
process.on('disconnect', () => process.exit())
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
