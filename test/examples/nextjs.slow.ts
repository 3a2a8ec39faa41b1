import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import postgres from 'postgres'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { ROOT } from '../_program.ts'
import { assertError, call, type Prepared, prepareDatabase, visit } from './_host.ts'
import { endProgram, startProgram } from './_program.ts'

// Not part of the ordinary run: installs Next.js from the registry and takes about a minute.

const run = promisify(execFile)

let directory: string
let app: string
let prepared: Prepared

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'business-api-nextjs-'))
  app = join(directory, 'app')
  await run('npm', ['pack', '--pack-destination', directory], { cwd: ROOT })
  const tarball = (await readdir(directory)).find((name) => name.endsWith('.tgz'))
  assert.ok(tarball)
  await cp(join(ROOT, 'examples/nextjs'), app, { recursive: true, filter: isSource })
  await run('npm', ['install', '--no-audit', '--no-fund', join(directory, tarball)], { cwd: app })
  prepared = await prepareDatabase()
})

after(async () => {
  await prepared?.drop()
  // Next.js may still write its cache.
  await rm(directory, { recursive: true, force: true, maxRetries: 10 })
})

function isSource(path: string): boolean {
  return !/[/\\](node_modules|\.next)$/.test(path)
}

test('examples/nextjs builds with no environment and no database', async () => {
  // npm itself needs to find node and sh; nothing else is given.
  const { stdout } = await run('npm', ['run', 'build'], { cwd: app, env: { PATH: process.env.PATH } })
  assert.match(stdout, /ƒ \/api\/v1\/\[\.\.\.path\]/)
  assert.match(stdout, /ƒ \/openapi\.json/)
  assert.match(stdout, /ƒ \/settings\/developer\/\[\[\.\.\.path\]\]/)
})

test('examples/nextjs migrates, serves the API and delivers', async () => {
  const environment = { DATABASE_URL: prepared.databaseUrl, SETTINGS_TOKEN: 'secret-session' }
  const migrated = startProgram('npm', ['run', 'migrate'], environment, app)
  assert.equal(await migrated.exit, 0, migrated.stderr())

  const program = startProgram('npm', ['start', '--', '--port', '0'], environment, app)
  const [, port] = await program.prints(/http:\/\/localhost:(\d+)/)
  await program.prints(/Ready/)
  const url = `http://127.0.0.1:${port}`
  await visit(url, prepared.key)
  assert.equal((await fetch(`${url}/settings/developer`)).status, 401)
  for (const path of ['', '/keys', '/reference']) {
    const page = await fetch(`${url}/settings/developer${path}`, {
      headers: { cookie: 'session=secret-session' },
    })
    assert.equal(page.status, 200, path)
    const [stylesheet = ''] = /\/settings\/developer\/-\/settings\.\w+\.css/.exec(await page.text()) ?? []
    assert.equal((await fetch(url + stylesheet)).status, 200)
  }
  const form = (site: string): RequestInit => ({
    method: 'POST',
    body: new URLSearchParams({ name: 'By form', scope: 'clients:read', expiry: 'never' }),
    headers: { cookie: 'session=secret-session', 'Sec-Fetch-Site': site },
  })
  assert.equal((await fetch(`${url}/settings/developer/keys/new`, form('cross-site'))).status, 403)
  const made = await fetch(`${url}/settings/developer/keys/new`, form('same-origin'))
  assert.equal(made.status, 200)
  const [key = ''] = /bapi_live_[0-9A-Za-z]{49}/.exec(await made.text()) ?? []
  const [ours, theirs] = [
    await fetch(`${url}/api/v1/clients`, { headers: { Authorization: `Bearer ${key}` } }),
    await fetch(`${url}/api/v1/leads`, { headers: { Authorization: `Bearer ${key}` } }),
  ]
  assert.deepEqual([ours.status, theirs.status], [200, 403])
  assert.match(await assertError(await call(`${url}/api/v1/unknown`, prepared.key), 404), /unknown/)
  const head = await fetch(`${url}/api/v1/clients`, {
    method: 'HEAD',
    headers: { Authorization: `Bearer ${prepared.key}` },
  })
  assert.equal(head.status, 200)
  const options = await fetch(`${url}/api/v1/clients`, { method: 'OPTIONS' })
  assert.equal(options.headers.get('allow'), 'GET, POST, HEAD, OPTIONS')

  // The example sends to the public internet only: a refused attempt shows that the loop runs.
  const store = createPostgresStore(prepared.databaseUrl)
  const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true, allowPrivateNetworks: true })
  const { organizationId } = prepared
  await settings.endpoints.register(organizationId, {
    url: 'https://127.0.0.1:9000/in',
    types: ['client.created'],
  })
  assert.equal((await call(`${url}/api/v1/clients`, prepared.key, { name: 'Atlas' })).status, 200)
  const [delivery] = (await settings.deliveries.list(organizationId)).data
  assert.ok(delivery)
  const attempts = async () => (await settings.deliveries.get(organizationId, delivery.id)).attemptLog
  const endsAt = performance.now() + 10_000
  while ((await attempts()).length === 0 && performance.now() < endsAt) await sleep(50)
  assert.equal((await attempts())[0]?.error, 'destination_not_allowed')
  await store.close()
  await endProgram(program)
  assert.doesNotMatch(program.stderr(), /held up/)
})

test('examples/nextjs in `next dev` keeps its connections, loop and sender through edits', async () => {
  const environment = { DATABASE_URL: prepared.databaseUrl }
  const program = startProgram('npm', ['run', 'dev', '--', '--port', '0'], environment, app)
  const [, port] = await program.prints(/http:\/\/localhost:(\d+)/)
  const sql = postgres(prepared.databaseUrl, { max: 1 })
  const sessions = async (): Promise<number> => {
    const rows = await sql`
      select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
    return rows.length
  }
  /** Edits a module of the app, and waits until the app runs the edit. */
  const edit = async (file: string, to: number): Promise<void> => {
    const path = join(app, 'lib', file)
    await writeFile(
      path,
      (await readFile(path, 'utf8')).replace(/\n*(\/\/ edit \d+\n)?$/, `\n// edit ${to}\n`),
    )
  }
  const api = join(app, 'lib/api.ts')
  const counts: number[] = []
  try {
    for (let edits = 0; edits < 6; edits++) {
      const version = `1.0.${edits}`
      await writeFile(
        api,
        `import { createBusinessApi } from 'business-api-kit'
import { store } from './store'

export const api = createBusinessApi(store, { info: { version: '${version}' } })
`,
      )
      for (const file of ['store.ts', 'deliveries.ts', 'settings.ts']) await edit(file, edits)
      await until(`version ${version} is served`, async () => {
        const response = await fetch(`http://127.0.0.1:${port}/openapi.json`)
        return response.ok && (await response.text()).includes(`"version":"${version}"`)
      })
      const lists = Array.from({ length: 8 }, () =>
        call(`http://127.0.0.1:${port}/api/v1/clients`, prepared.key),
      )
      for (const { status } of await Promise.all(lists)) assert.equal(status, 200)
      counts.push(await sessions())
    }
    // The first store opens at most its ten connections, and no edit another store.
    assert.ok(Math.max(...counts) <= 10, `sessions after each edit: ${counts}`)
  } finally {
    await sql.end()
    await endProgram(program)
  }
})

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const endsAt = performance.now() + 60_000
  while (!(await isSo())) {
    assert.ok(performance.now() < endsAt, `not within a minute: ${what}`)
    await sleep(250)
  }
}
