import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// The library as it is published, with the default options: both rate limits on. Another checkout's `dist` may be given, and shards as
// JSON in the place of a connection string: {"a":"postgres://…"}.

const [url = '', dist = new URL('../../../dist', import.meta.url).href] = process.argv.slice(2)
const { createBusinessApi }: typeof import('../../../dist/index.js') = await import(`${dist}/index.js`)
const { createPostgresStore, createShardedStore }: typeof import('../../../dist/postgres.js') = await import(
  `${dist}/postgres.js`
)

function openStore() {
  if (!url.startsWith('{')) return createPostgresStore(url)
  const shards = Object.entries<string>(JSON.parse(url)).map(([name, each]) => [
    name,
    createPostgresStore(each),
  ])
  return createShardedStore({ shards: Object.fromEntries(shards) })
}

const server = createServer(createBusinessApi(openStore()))
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit())
