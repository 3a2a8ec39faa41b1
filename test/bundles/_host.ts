/**
 * A host with everything that a bundle may break: the host migrates, makes a key, registers an endpoint, starts a delivery loop,
 * and prints the values that the test needs for calls. JavaScript, because the bundlers know nothing of this package.
 */
export const START = `
import { createPostgresStore, migrate } from 'business-api-kit/postgres'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createDeliveryLoop, createWebhookSender } from 'business-api-kit/webhooks'

const LOCAL = { allowHttp: true, allowPrivateNetworks: true }
const secretKeys = ['0123456789abcdef'.repeat(4)]

export async function start() {
  const { DATABASE_URL, RECEIVER_URL } = process.env
  const { applied } = await migrate(DATABASE_URL)
  const store = createPostgresStore(DATABASE_URL)
  const settings = createDeveloperSettings(store, { ...LOCAL, secretKeys })
  const { key } = await settings.apiKeys.create('org_1', { name: 'Bundle', scopes: ['clients:read', 'clients:write'] })
  const { secret } = await settings.endpoints.register('org_1', { url: RECEIVER_URL, types: ['client.created'] })
  const onError = (error) => console.error(error)
  createDeliveryLoop(store, createWebhookSender(LOCAL), { secretKeys, onError }).start()
  console.log(JSON.stringify({ applied, key, secret }))
  return store
}
`

/** The same as a whole program, with the API on a port. */
export const PROGRAM = `
import { createServer } from 'node:http'
import { createBusinessApi } from 'business-api-kit'
import { start } from './start.mjs'

start().then((store) => {
  const server = createServer(createBusinessApi(store)).listen(0, '127.0.0.1', () => {
    console.log(\`Listening on http://127.0.0.1:\${server.address().port}/\`)
  })
})
`

/** Builds the program into a single file with webpack, dynamic imports included. */
export const WEBPACK = `
import webpack from 'webpack'

const compiler = webpack({
  mode: 'production',
  target: 'node20',
  entry: './program.mjs',
  output: { path: process.cwd() + '/out', filename: 'program.cjs' },
  plugins: [new webpack.optimize.LimitChunkCountPlugin({ maxChunks: 1 })],
})
compiler.run((error, stats) => {
  if (error || stats.hasErrors()) {
    console.error(error ?? stats.toString())
    process.exitCode = 1
  }
})
`

/** Starts the host when a Next.js server does, in the process that serves. */
export const INSTRUMENTATION = `
export async function register() {
  if (process.env.NEXT_RUNTIME === 'nodejs') await (await import('./start.mjs')).start()
}
`
