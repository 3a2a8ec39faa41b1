// Subscribers that answer without end, in a separate process of low priority: on a real network such subscribers have other
// processors. Reports the ports.
//
//   node --import tsx flooder.ts 16

import type { AddressInfo } from 'node:net'
import { setPriority } from 'node:os'
import { createFloodServer, FLOODS, type Flood } from '../../sender/_floods.ts'

const count = Number(process.argv[2])
setPriority(10)

function listen(flood: Flood): Promise<number> {
  const server = createFloodServer(flood)
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

const floods = Object.values(FLOODS).flatMap((flood) => Array<Flood>(count).fill(flood))
process.on('disconnect', () => process.exit())
process.send?.(await Promise.all(floods.map(listen)))
