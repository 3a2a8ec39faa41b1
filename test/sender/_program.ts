// Sends one webhook to the given URL. Prints the result and whether undici was loaded before as JSON.

import { createRequire } from 'node:module'
import { createWebhookSender } from '../../lib/sender/sender.ts'

const [url = ''] = process.argv.slice(2)
const { cache } = createRequire(import.meta.url)
const isLoaded = () => Object.keys(cache).some((path) => path.includes('/undici/'))
const request = { url, headers: {}, body: '{}' }
const resources = new Set(process.getActiveResourcesInfo())

const unused = createWebhookSender()
await unused.send(request)
await unused.close()
const sender = createWebhookSender({ allowPrivateNetworks: true, allowHttp: true })
const before = {
  isLoaded: isLoaded(),
  resources: process.getActiveResourcesInfo().filter((resource) => !resources.has(resource)),
}

const { status } = await sender.send(request)
console.log(JSON.stringify({ before, status, after: { isLoaded: isLoaded() } }))
// Not closed, because idle connections don't keep a process alive.
