// Imports the doors of a built package, or constructs the exports, and prints the effects on the process as JSON.
//
// Plain JavaScript for a bare `node`, because a TypeScript loader has many of the effects under test.
//
//   node _import-probe.mjs DIRECTORY DOOR…            imports
//   node _import-probe.mjs DIRECTORY DOOR… construct  imports, then constructs and inspects that only

import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [directory, ...words] = process.argv.slice(2)
const doors = words.filter((word) => word !== 'construct')
const urls = doors.map((door) => pathToFileURL(join(directory, 'dist', `${door}.js`)).href)
const importAll = () => Promise.all(urls.map((url) => import(url)))

let work = importAll
if (words.includes('construct')) {
  const exported = Object.assign({}, ...(await importAll()))
  const postgres = await import(pathToFileURL(join(directory, 'node_modules/postgres/src/index.js')).href)
  const pool = postgres.default('postgres://nobody@127.0.0.1:1/none')
  work = async () => construct(exported, pool)
}

console.log(JSON.stringify(await watch(work)))

function construct(
  { createBusinessApi, createPostgresStore, createMemoryStore, createDeveloperSettings, createSettingsPage },
  pool,
) {
  for (const store of [
    createPostgresStore('postgres://nobody@127.0.0.1:1/none'),
    createPostgresStore(pool),
  ]) {
    createBusinessApi(store)
    createSettingsPage(createDeveloperSettings(store), { authorize: () => null })
  }
  createBusinessApi(createMemoryStore(), { basePath: '/platform', rateLimit: { scope: 'process' } })
}

async function watch(doIt) {
  const variables = []
  const timers = []
  const environment = process.env
  process.env = watchReads(environment, variables)
  const originals = {}
  for (const name of ['setTimeout', 'setInterval', 'setImmediate']) {
    originals[name] = globalThis[name]
    globalThis[name] = (...args) => {
      timers.push(name)
      return originals[name](...args)
    }
  }
  const before = inspect()
  await doIt()
  Object.assign(globalThis, originals)
  process.env = environment
  // The resources for reading files are gone a moment after the import.
  await new Promise((resolve) => setTimeout(resolve, 50))
  const after = inspect()
  return {
    variables,
    timers,
    resources: added(before.resources, after.resources),
    listeners: added(before.listeners, after.listeners),
    globals: added(before.globals, after.globals),
  }
}

/** Reports the readers of variables, except node's own loader of modules. */
function watchReads(environment, variables) {
  function note(name) {
    const [, , , reader = ''] = new Error().stack?.split('\n') ?? []
    if (!reader.includes('node:internal')) variables.push(`${name} ${reader.trim()}`)
  }
  return new Proxy(environment, {
    get: (target, name) => {
      note(String(name))
      return target[name]
    },
    has: (target, name) => {
      note(String(name))
      return name in target
    },
    ownKeys: (target) => {
      note('all')
      return Reflect.ownKeys(target)
    },
  })
}

function inspect() {
  return {
    resources: process.getActiveResourcesInfo(),
    listeners: process.eventNames().flatMap((name) => process.listeners(name).map(() => String(name))),
    globals: Reflect.ownKeys(globalThis).map(String),
  }
}

/** The entries that the second list has more often than the first. */
function added(before, after) {
  const rest = [...before]
  return after.filter((item) => {
    const index = rest.indexOf(item)
    if (index !== -1) rest.splice(index, 1)
    return index === -1
  })
}
