// A host with another route, and with a store that fails every call.
//
//   tsx test/examples/_failing-host.ts node-http|express unavailable|bug|synchronous

import { createServer, type RequestListener } from 'node:http'
import express from 'express'
import { createBusinessApi, defineService } from '../../lib/index.ts'
import { type BusinessApiStore, storeUnavailable } from '../../lib/store.ts'

const SECRET = 'password=hunter2'

const failures: Readonly<Record<string, () => Promise<never>>> = {
  unavailable: () => Promise.reject(storeUnavailable(`Cannot reach ${SECRET}`)),
  bug: () => Promise.reject(new Error(SECRET)),
  synchronous: () => {
    throw new Error(SECRET)
  },
}

const [host, failure = ''] = process.argv.slice(2)
const slice = new Proxy({}, { get: () => failures[failure] })
// What a store has, or may lack, beside the slices.
const others = { service: defineService(), beginRequest: undefined, shards: undefined, findKey: undefined }
const store = new Proxy(others, {
  get: (_, name) => (name in others ? Reflect.get(others, name) : slice),
}) as unknown as BusinessApiStore
const api = createBusinessApi(store)

const server = createServer(host === 'express' ? createExpressApp() : createListener())
server.listen(0, () => console.log('Listening on', server.address()))
process.once('SIGTERM', () => server.close())

function createListener(): RequestListener {
  return (request, response) => {
    api(request, response, () => response.end('host'))
  }
}

function createExpressApp(): express.Express {
  const app = express()
  app.use(express.json())
  app.use(api)
  app.use((_request, response) => {
    response.send('host')
  })
  return app
}
