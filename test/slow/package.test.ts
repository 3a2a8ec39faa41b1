import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

// The package as a stranger gets it: packed, installed into an empty project elsewhere, type-checked there under the
// strictest settings, and served from there.

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '../..')

/** A host with every door of the package, which exports what it makes: nothing of it may lack a name (TS2742). */
const HOST = `
import { createServer } from 'node:http'
import { createBusinessApi, type BusinessStore, EVENT_TYPES, jsonText } from 'business-api'
import { createMemoryStore } from 'business-api/memory'
import { createPostgresStore, migrate } from 'business-api/postgres'
import { createDeveloperSettings } from 'business-api/settings'

const url = process.env['DATABASE_URL'] ?? ''
export const report = await migrate(url)
export const store = createPostgresStore(url)
export const settings = createDeveloperSettings(store)
export const created = await settings.apiKeys.create('org_package', { name: 'Package', scopes: ['clients:read', 'clients:write'] })
export const api = createBusinessApi(store)
export const GET = api.fetch
export const text = jsonText([EVENT_TYPES.length])
const other: BusinessStore = createMemoryStore()
export const server = createServer(api).listen(0, '127.0.0.1', () => {
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  console.log(JSON.stringify({ port, key: created.key, memory: Object.keys(other).length }))
})
`

/** A host that exports what it gets, and imports no more than two doors: what they return must be named there. */
const SUBPATHS = `
import { createMemoryStore } from 'business-api/memory'
import { createPlatform } from 'business-api/platform'
import { createDeveloperSettings } from 'business-api/settings'

const store = createMemoryStore()
export const platform = createPlatform(store)
export const settings = createDeveloperSettings(store)
export const won = await platform.leads.convert('org_package', { leadId: 'lead_1' })
export const invoice = await platform.invoices.issue('org_package', { invoiceId: 'inv_1' })
export const page = await settings.deliveries.list('org_package')
export const delivery = await settings.deliveries.get('org_package', 'dlv_1')
export const endpoints = await settings.endpoints.list('org_package')
export const entries = await settings.audit.list('org_package')
export const rotated = await settings.apiKeys.rotate('org_package', 'key_1')
`

const TSCONFIG = {
  compilerOptions: {
    target: 'es2022',
    module: 'nodenext',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    declaration: true,
    skipLibCheck: false,
    types: ['node'],
    outDir: 'out',
  },
  include: ['host.ts'],
}

describe('the package, packed and installed into an empty project', () => {
  let project: string
  let database: TestDatabase
  let installed: string

  before(async () => {
    database = await createTestDatabase()
    project = await mkdtemp(join(tmpdir(), 'business-api-package-'))
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', project], { cwd: ROOT })
    const [packed]: { filename: string }[] = JSON.parse(stdout.slice(stdout.indexOf('[')))
    assert.ok(packed)
    await writeFile(join(project, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify(TSCONFIG))
    await writeFile(join(project, 'host.ts'), HOST)
    await mkdir(join(project, 'subpaths'))
    await writeFile(join(project, 'subpaths/tsconfig.json'), JSON.stringify({ ...TSCONFIG, include: ['.'] }))
    await writeFile(join(project, 'subpaths/host.ts'), SUBPATHS)
    const needs = [join(project, packed.filename), 'typescript@5.9', '@types/node@20']
    await run('npm', ['install', '--no-audit', '--no-fund', ...needs], { cwd: project })
    installed = join(project, 'node_modules/business-api')
  })

  after(async () => {
    await database.drop()
    await rm(project, { recursive: true, force: true })
  })

  test('holds what runs and what is read, and nothing else', async () => {
    const top = await readdir(installed)
    assert.deepEqual(top.sort(), ['CHANGELOG.md', 'LICENSE', 'README.md', 'dist', 'package.json', 'sql'])
  })

  test('type-checks without skipLibCheck, and its host can emit declarations', async () => {
    await run(process.execPath, [join(project, 'node_modules/typescript/bin/tsc')], { cwd: project })
    assert.deepEqual((await readdir(join(project, 'out'))).sort(), ['host.d.ts', 'host.js'])
  })

  test('names what its doors give, also where no other one is imported', async () => {
    const tsc = join(project, 'node_modules/typescript/bin/tsc')
    const { stdout } = await run(process.execPath, [tsc, '-p', 'subpaths'], { cwd: project }).catch(
      (error) => error,
    )
    assert.equal(stdout, '')
  })

  test('migrates, makes a key and serves', async () => {
    const host = spawn(process.execPath, ['out/host.js'], {
      cwd: project,
      env: { ...process.env, DATABASE_URL: database.url },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      const [line] = await once(host.stdout, 'data')
      const { port, key, memory } = JSON.parse(String(line))
      assert.equal(memory > 0, true)
      const url = `http://127.0.0.1:${port}/api/v1/clients`
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const posted = await fetch(url, { method: 'POST', headers, body: '{"name":"Atlas Ceramics"}' })
      assert.equal(posted.status, 200)
      const listed = JSON.parse(await (await fetch(url, { headers })).text())
      assert.equal(listed.data[0].business.name, 'Atlas Ceramics')
      const described = JSON.parse(await (await fetch(`http://127.0.0.1:${port}/openapi.json`)).text())
      assert.equal(described.info.version, '1.0.0')
    } finally {
      host.kill()
    }
  })

  test('brings its command line, which finds the migrations where it is installed', async () => {
    const bin = join(project, 'node_modules/.bin/business-api')
    const help = await run(bin, ['--help'], { cwd: project })
    assert.match(help.stdout, /^business-api: operates/)
    const env = { ...process.env, DATABASE_URL: database.url }
    const { stdout } = await run(bin, ['migrate', '--dry-run', '--json'], { cwd: project, env })
    const { pending, current } = JSON.parse(stdout)
    assert.ok(current > 0 && pending.length === 0)
  })

  test('has one door for each export, and no other', async () => {
    const script =
      "import('business-api/postgres/store.js').then(() => process.exit(1), (e) => console.log(e.code))"
    const { stdout } = await run(process.execPath, ['-e', script], { cwd: project })
    assert.equal(stdout.trim(), 'ERR_PACKAGE_PATH_NOT_EXPORTED')
  })
})
