import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Check } from '../../lib/cli/checks.ts'
import { createBusinessApi, defineService, type ServiceOptions } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { serve } from '../api/_api.ts'
import { cliOn, textOf } from './_cli.ts'
import { writeService } from './_service.ts'

// How `doctor` compares the service from --service with the keys in the database and the API's document.

let database: TestDatabase
before(async () => {
  database = await createTestDatabase()
})
after(() => database.drop())

async function diagnose(name: string, names: ServiceOptions): Promise<Check | undefined> {
  const { stdout } = await cliOn(database.url)('doctor', '--json', '--service', await writeService(names))
  return JSON.parse(stdout).checks.find((check: Check) => check.name === name)
}

test('keys: warns if no active key has the prefix, and lists the other prefixes', async () => {
  const create = async (names: ServiceOptions): Promise<void> => {
    const flags = ['-o', 'org_1', '--scopes', 'all', '--service', await writeService(names)]
    textOf(await cliOn(database.url)('keys', 'create', ...flags))
  }
  const ACME = { keyPrefix: 'acme' }
  assert.deepEqual(await diagnose('keys', ACME), {
    name: 'keys',
    level: 'ok',
    message: 'new API keys begin with acme_live_',
  })
  await create({})
  const { level, message, advice } = (await diagnose('keys', ACME)) ?? assert.fail()
  assert.equal(level, 'warn')
  assert.equal(message, 'new API keys begin with acme_live_, but no active key does: 1 with bapi_live_')
  assert.match(advice ?? '', /BUSINESS_API_SERVICE/)
  await create(ACME)
  assert.deepEqual(await diagnose('keys', ACME), {
    name: 'keys',
    level: 'ok',
    message: 'new API keys begin with acme_live_; in force besides: 1 with bapi_live_',
  })
})

test("keys: warns about active keys of an earlier API if the service doesn't know their format", async () => {
  const org = 'org_moved'
  const importedKeys = { pattern: /^old_/ }
  const moved = { keyPrefix: 'acme', importedKeys }
  const flags = [
    '-o',
    org,
    '--scopes',
    'all',
    '--name',
    'Old',
    '--last-four',
    '7f3a',
    '--digest',
    'a'.repeat(64),
  ]
  const run = cliOn(database.url)
  textOf(await run('keys', 'import', ...flags, '--prefix', 'old_', '--service', await writeService(moved)))
  const { level, message, advice } = (await diagnose('keys', { keyPrefix: 'acme' })) ?? assert.fail()
  assert.equal(level, 'warn')
  assert.equal(message, 'active imported keys: 1, which get 401 because the service has no importedKeys')
  assert.match(advice ?? '', /BUSINESS_API_SERVICE/)
  assert.equal((await diagnose('keys', moved))?.level, 'ok')
})

describe('document', () => {
  test("isn't checked without a baseUrl, and is a warning if it can't be read", async () => {
    assert.equal(await diagnose('document', {}), undefined)
    const silent = await diagnose('document', { baseUrl: 'http://127.0.0.1:1' })
    assert.deepEqual(
      [silent?.level, silent?.message],
      ['warn', 'http://127.0.0.1:1/openapi.json cannot be reached from here'],
    )
  })

  test('fails if the API has different names than the loop and the settings', async (t) => {
    const names = { name: 'Acme', keyPrefix: 'acme', headerPrefix: 'X-Acme' }
    let api = createBusinessApi(createMemoryStore())
    const server = await serve((request, response) => api(request, response))
    t.after(() => server.close())
    const here = { ...names, baseUrl: server.url }
    const other = await diagnose('document', here)
    assert.equal(other?.level, 'fail')
    assert.equal(
      other?.message,
      `${server.url}/openapi.json belongs to another service: it has no ${server.url}, no X-Acme-Signature, no acme_live_, no Acme`,
    )
    api = createBusinessApi(createMemoryStore({ service: defineService(here) }))
    assert.equal((await diagnose('document', here))?.level, 'ok')
    assert.match(
      (await diagnose('document', { ...here, baseUrl: `${server.url}/x` }))?.message ?? '',
      /answers 404$/,
    )
  })

  test('compares whole names with any characters', async (t) => {
    let api = createBusinessApi(createMemoryStore())
    const server = await serve((request, response) => api(request, response))
    t.after(() => server.close())
    const names = { name: 'Acme "Pro" \\ é', keyPrefix: 'acme', headerPrefix: 'X-Acme', baseUrl: server.url }
    api = createBusinessApi(createMemoryStore({ service: defineService(names) }))
    assert.equal((await diagnose('document', names))?.level, 'ok')
    for (const part of [{ headerPrefix: 'Acme' }, { keyPrefix: 'cme' }, { name: 'Acme' }])
      assert.equal((await diagnose('document', { ...names, ...part }))?.level, 'fail', JSON.stringify(part))
  })
})

test("--service says in one line why a module can't be used, before anything is read", async () => {
  const run = cliOn('postgres://127.0.0.1:1/none')
  for (const [path, about] of [
    ['/no/such/service.mjs', /Cannot use the module of --service: Cannot find module/],
    [
      await writeService({}).then((own) => own.replace('.mjs', '.ts')),
      /Cannot use the module of --service: /,
    ],
    [await writeService({}, 'names'), /it has no export 'service': add export const service = defineService/],
  ] as const) {
    const { exitCode, stderr } = await run('keys', 'create', '-o', 'o', '--scopes', 'all', '--service', path)
    assert.deepEqual([exitCode, stderr.split('\n').length], [2, 2], stderr)
    assert.match(stderr, about)
  }
})
