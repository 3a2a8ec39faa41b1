import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { installProject, pack } from '../_packed.ts'
import { call, type Prepared, prepareDatabase, visit } from '../examples/_host.ts'
import { endProgram, startProgram } from '../examples/_program.ts'

// Tests hosts that can read a body before the API does, each mounted as described in the README. Not part of the normal
// run because the hosts have to be installed.

const API = `
import { createBusinessApi } from 'business-api-kit'
import { createPostgresStore } from 'business-api-kit/postgres'
const api = createBusinessApi(createPostgresStore(process.env.DATABASE_URL))
const tell = (port) => console.log('Listening on http://127.0.0.1:' + port + '/')
`

const KOA = `${API}
import Koa from 'koa'
import bodyParser from 'koa-bodyparser'

const app = new Koa()
app.use(bodyParser())
app.use(async (ctx) => {
  ctx.respond = false
  ctx.req.rawBody = ctx.request.rawBody
  await api(ctx.req, ctx.res)
})
const server = app.listen(0, '127.0.0.1', () => tell(server.address().port))
`

const FASTIFY = `${API}
import Fastify from 'fastify'

const app = Fastify()
app.all('*', async (request, reply) => {
  reply.hijack()
  request.raw.body = request.body
  await api(request.raw, reply.raw)
})
await app.listen({ port: 0, host: '127.0.0.1' })
tell(app.server.address().port)
`

const HONO = `${API}
import { serve } from '@hono/node-server'
import { Hono } from 'hono'

const app = new Hono()
app.use(async (c, next) => {
  if (c.req.method === 'POST') await c.req.json().catch(() => {})
  await next()
})
app.all('*', async (c) => api.fetch(c.req.raw, { rawBody: await c.req.text() }))
serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => tell(port))
`

let directory: string
let prepared: Prepared

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'business-api-hosts-'))
  const { tarball } = await pack(directory)
  const files = {
    // Fastify's test injection would use cookie 2, which requires Node 22.
    'package.json': { private: true, type: 'module', overrides: { cookie: '^1.0.2' } },
    'koa.js': KOA,
    'fastify.js': FASTIFY,
    'hono.js': HONO,
  }
  const hosts = ['koa@2', 'koa-bodyparser@4', 'fastify@5', 'hono@4', '@hono/node-server@1']
  await installProject(directory, files, [tarball, ...hosts])
  prepared = await prepareDatabase()
})

after(async () => {
  await prepared?.drop()
  await rm(directory, { recursive: true, force: true })
})

for (const [host, file] of [
  ['Koa after koa-bodyparser', 'koa.js'],
  ['Fastify', 'fastify.js'],
  ['Hono after c.req.json()', 'hono.js'],
] as const) {
  test(`${host} works even though the body was already read`, async () => {
    const environment = { DATABASE_URL: prepared.databaseUrl }
    const program = startProgram(process.execPath, [file], environment, directory)
    const [, port] = await program.prints(/http:\/\/127\.0\.0\.1:(\d+)/)
    const url = `http://127.0.0.1:${port}`
    await visit(url, prepared.key)
    const missing = await call(`${url}/api/v1/clients/`, prepared.key)
    assert.equal(missing.status, 404)
    await endProgram(program)
    assert.equal(program.stderr(), '')
  })
}
