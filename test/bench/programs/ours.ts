import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// The library as it is published, with the default options: both rate limits on. Another checkout's `dist` may be given.

const [url = '', dist = new URL('../../../dist', import.meta.url).href] = process.argv.slice(2)
const { createBusinessApi }: typeof import('../../../dist/index.js') = await import(`${dist}/index.js`)
const { createPostgresStore }: typeof import('../../../dist/postgres.js') = await import(
  `${dist}/postgres.js`
)

const server = createServer(createBusinessApi(createPostgresStore(url)))
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit())
