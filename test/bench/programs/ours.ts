import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createBusinessApi } from '../../../dist/index.js'
import { createPostgresStore } from '../../../dist/postgres.js'

// The library as it is published, with the default options: both rate limits on.

const store = createPostgresStore(process.argv[2] ?? '')
const server = createServer(createBusinessApi(store))
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit())
