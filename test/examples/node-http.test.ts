import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Prepared, prepareDatabase, visit } from './_host.ts'
import { endProgram, type Program, readBaseUrl, startSource } from './_program.ts'

let prepared: Prepared
before(async () => {
  prepared = await prepareDatabase()
})
after(() => prepared.drop())

function start(basePath?: string): Program {
  return startSource(['examples/node-http.ts'], {
    DATABASE_URL: prepared.databaseUrl,
    PORT: '0',
    BASE_PATH: basePath,
  })
}

test('examples/node-http serves the API beside the routes of the host', async () => {
  const program = start()
  const url = await readBaseUrl(program)
  await visit(url, prepared.key)
  assert.equal(await (await fetch(`${url}/about`)).text(), "The host's own page\n")
  await endProgram(program)
  assert.equal(await program.exit, 0)
  assert.equal(program.stderr(), '')
})

test('examples/node-http serves the API under a prefix, and only there', async () => {
  const program = start('/platform')
  const url = await readBaseUrl(program)
  const another = await prepareDatabase()
  await visit(`${url}/platform`, prepared.key).finally(another.drop)
  for (const path of ['/api/v1/clients', '/platformapi/v1/clients', '/platform', '/openapi.json']) {
    assert.equal(await (await fetch(url + path)).text(), "The host's own page\n", path)
  }
  await endProgram(program)
})

test('examples/node-http names DATABASE_URL when the variable is not set', async () => {
  const program = startSource(['examples/node-http.ts'], { DATABASE_URL: undefined })
  assert.equal(await program.exit, 2)
  assert.equal(program.stderr(), 'Set DATABASE_URL to a PostgreSQL database\n')
})
