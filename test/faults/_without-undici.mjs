// A host of a built package without undici: publishes an event, tries to deliver the event, and prints the reported errors as
// JSON.
//
//   node _without-undici.mjs DIRECTORY

import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [directory] = process.argv.slice(2)
const open = (door) => import(pathToFileURL(join(directory, 'dist', `${door}.js`)).href)
const { createMemoryStore } = await open('memory')
const { createDeveloperSettings } = await open('settings')
const { createPlatform } = await open('platform')
const { createDeliveryLoop, createWebhookSender } = await open('webhooks')

const store = createMemoryStore()
const sender = createWebhookSender({ localDevelopment: true })
const options = { allowPlaintextSecrets: true }
const settings = createDeveloperSettings(store, { ...options, sender })
const { id } = await settings.endpoints.register('org_1', { url: 'https://127.0.0.1/in' })

const lines = []
const logger = Object.fromEntries(
  ['debug', 'info', 'warn', 'error'].map((level) => [level, (_, message) => lines.push([level, message])]),
)
const heard = []
const loop = await new Promise((resolve) => {
  const running = createDeliveryLoop(store, sender, {
    ...options,
    logger,
    onError(error) {
      heard.push(error.message)
      resolve(running)
    },
  })
  // The missing package is reported although nothing is due.
  running.start()
})
await createPlatform(store).clients.create('org_1', { name: 'Atlas' })
await loop.stop()
const told = async (work) =>
  work.then(
    () => 'no failure',
    ({ message }) => message,
  )
const once = await told(loop.runOnce())
const tested = await told(settings.endpoints.sendTest('org_1', id))
const { data } = await settings.deliveries.list('org_1')
console.log(
  JSON.stringify({
    heard,
    lines,
    once,
    tested,
    deliveries: data.map(({ state, attempts }) => ({ state, attempts })),
  }),
)
