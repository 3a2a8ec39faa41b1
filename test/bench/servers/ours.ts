import { createServer } from 'node:http'
import { createBusinessApi } from '../../../lib/index.ts'
import { createPostgresStore } from '../../../lib/postgres.ts'

// The rate limits stay on, so high that nothing is refused, because the limits cost part of every request.
const limit = { perSecond: 1e6, burst: 1e8 }
const store = createPostgresStore(process.env.DATABASE_URL ?? '')
const api = createBusinessApi(store, { rateLimit: { key: limit, organization: limit } })
createServer(api).listen(Number(process.env.PORT), '127.0.0.1', () => console.log('ready'))
