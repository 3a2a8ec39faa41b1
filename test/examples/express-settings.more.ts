import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { prepareDatabase } from './_host.ts'
import { endProgram, readBaseUrl, startSource } from './_program.ts'

test('examples/express-settings shows the page to a signed-in person, and a key made there calls the API', async () => {
  const prepared = await prepareDatabase()
  const program = startSource(['examples/express-settings.ts'], {
    DATABASE_URL: prepared.databaseUrl,
    BUSINESS_API_SECRET_KEYS: randomBytes(32).toString('base64'),
    PORT: '0',
  })
  const url = await readBaseUrl(program)
  const page = `${url}/settings/developer`

  const stranger = await fetch(`${page}/keys`, { redirect: 'manual' })
  assert.deepEqual([stranger.status, stranger.headers.get('location')], [303, '/login'])

  const login = await fetch(`${url}/login`, { redirect: 'manual' })
  const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? ''
  const overview = await fetch(page, { headers: { cookie } })
  assert.match(await overview.text(), /Get started/)

  const body = new URLSearchParams({ name: 'Website', scope: 'clients:read', expiry: 'never' })
  const made = await fetch(`${page}/keys/new`, { method: 'POST', body, headers: { cookie, Origin: url } })
  const [key = ''] = /bapi_live_[0-9A-Za-z]{49}/.exec(await made.text()) ?? []
  const list = await fetch(`${url}/platform/api/v1/clients`, { headers: { Authorization: `Bearer ${key}` } })
  assert.deepEqual([list.status, await list.text()], [200, '{"data":[]}'])

  await fetch(`${url}/logout`, { method: 'POST', headers: { cookie }, redirect: 'manual' })
  const revoked = await fetch(`${page}/keys/new`, {
    method: 'POST',
    body,
    headers: { cookie, Origin: url },
    redirect: 'manual',
  })
  assert.equal(revoked.status, 303)

  await endProgram(program)
  await prepared.drop()
  assert.equal(await program.exit, 0)
  assert.equal(program.stderr(), '')
})
