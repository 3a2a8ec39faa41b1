import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, open, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { createBusinessApi, defineService } from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createSecretSealer } from '../../lib/webhooks/secret-sealing.ts'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../_database.ts'
import { programArguments, ROOT } from '../_program.ts'
import { startSource } from '../examples/_program.ts'
import { cliOn, jsonOf, SECRET_KEY } from './_cli.ts'

// The program as a process with arguments, environment and streams.

test('a result goes to stdout and the exit code is 0', async () => {
  const program = startSource(['lib/cli.ts', '--help'])
  assert.equal(await program.exit, 0)
  assert.match(program.stdout(), /^business-api-kit: operates/)
  assert.equal(program.stderr(), '')
})

test('a failure goes to stderr and its kind determines the exit code', async () => {
  const unknown = startSource(['lib/cli.ts', 'migrat'])
  const refused = startSource(['lib/cli.ts', 'status'], { DATABASE_URL: 'postgres://127.0.0.1:1/none' })
  assert.deepEqual([await unknown.exit, await refused.exit], [2, 1])
  assert.deepEqual([unknown.stdout(), refused.stdout()], ['', ''])
  assert.match(unknown.stderr(), /^business-api-kit: Unknown command [^\n]+\n$/)
  assert.match(refused.stderr(), /^business-api-kit: Cannot reach PostgreSQL \([^\n]+\n$/)
})

test("the server's debug messages don't go to stdout", async (t) => {
  const database = await createEmptyDatabase()
  t.after(() => database.drop())
  await database.sql({ max: 1 }).unsafe(`
    do $$ begin execute format('alter database %I set client_min_messages = debug5', current_database()); end $$`)
  const program = startSource(['lib/cli.ts', 'migrate', '--json'], { DATABASE_URL: database.url })
  assert.equal(await program.exit, 0, program.stderr())
  assert.deepEqual(Object.keys(JSON.parse(program.stdout())), ['applied', 'current'])
})

/** Runs the program with its output going to a file or to a pipe without a reader. */
async function runInto(
  stdout: number | 'nobody',
  args: readonly string[],
  databaseUrl = '',
): Promise<{ code: number; stderr: string }> {
  const child = spawn(process.execPath, [...programArguments(join(ROOT, 'lib/cli.ts')), ...args], {
    cwd: ROOT,
    env: { ...process.env, DATABASE_URL: databaseUrl, BUSINESS_API_SECRET_KEYS: SECRET_KEY },
    stdio: ['ignore', stdout === 'nobody' ? 'pipe' : stdout, 'pipe'],
  })
  child.stdout?.destroy()
  let stderr = ''
  child.stderr?.on('data', (chunk) => {
    stderr += chunk
  })
  const [code] = await once(child, 'close')
  return { code, stderr }
}

test("it's not a failure if the reader stops early", async () => {
  assert.deepEqual(await runInto('nobody', ['migrate', '--print']), { code: 0, stderr: '' })
})

test("a reader that stops early doesn't hide a failure", async () => {
  const url = 'postgres://127.0.0.1:1/none'
  const { code, stderr } = await runInto('nobody', ['doctor'], url)
  assert.equal(code, 1)
  assert.match(stderr, /^business-api-kit: The check connection has failed[^\n]*\n$/)
})

/** A full disk. */
const FULL = '/dev/full'

test("it's a failure if a result can't be written", { skip: !existsSync(FULL) }, async (t) => {
  const full = await open(FULL, 'w')
  t.after(() => full.close())
  for (const args of [['--help'], ['migrate', '--print']]) {
    const { code, stderr } = await runInto(full.fd, args)
    assert.equal(code, 1)
    assert.match(stderr, /^business-api-kit: Cannot write the result: ENOSPC[^\n]+\n$/)
  }
})

describe('a secret that is only shown once and gets lost', () => {
  const of = ['--organization', 'org_1']
  const create = ['keys', 'create', ...of, '--scopes', 'leads:read', '--json']
  const add = ['endpoints', 'add', ...of, '--url', 'https://192.0.0.8/', '--allow-private-networks', '--json']
  let database: TestDatabase

  before(async () => {
    database = await createTestDatabase()
  })
  after(() => database.drop())

  const run = (args: readonly string[]) => cliOn(database.url)(...args)

  /** The organization's newest record. */
  async function newest(kind: string): Promise<string> {
    return jsonOf(await run([kind, 'list', ...of, '--json'])).data[0].id
  }

  test('is a failure that names the new record if nobody reads the output', async () => {
    const { id: key } = jsonOf(await run(create))
    const { id: endpoint } = jsonOf(await run(add))
    const commands = [create, ['keys', 'rotate', key, ...of, '--json'], add]
    for (const args of commands) {
      const { code, stderr } = await runInto('nobody', args, database.url)
      assert.equal(code, 1, args.join(' '))
      assert.match(
        stderr,
        /^business-api-kit: Cannot write the secret that is shown only once: its reader has exited; [^\n]+\n$/,
      )
      assert.ok(stderr.includes(await newest(args[0] ?? '')), stderr)
    }
    const rotated = await runInto('nobody', ['endpoints', 'rotate', endpoint, ...of, '--json'], database.url)
    assert.equal(rotated.code, 1)
    assert.ok(rotated.stderr.includes(endpoint), rotated.stderr)
  })

  test('is a failure that names the new record if the disk is full', {
    skip: !existsSync(FULL),
  }, async (t) => {
    const full = await open(FULL, 'w')
    t.after(() => full.close())
    const { code, stderr } = await runInto(full.fd, create, database.url)
    assert.equal(code, 1)
    assert.match(
      stderr,
      /^business-api-kit: Cannot write the secret that is shown only once: ENOSPC[^\n]+\n$/,
    )
    assert.ok(stderr.includes(await newest('keys')), stderr)
  })
})

test('the commands in the README about moving import a key that the API then accepts, and a secret that signs', async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const page = await readFile(join(ROOT, 'lib/settings/README.md'), 'utf8')
  const [, moving = ''] = page.split('## Moving an API that exists')
  const lines = /```sh\n(.*?)```/s.exec(moving)?.[1] ?? ''
  const [oldKey, secret] = [
    `acme_${'k'.repeat(36)}7f3a`,
    `the customers' secret, ${'s'.repeat(24)}`.replaceAll(' ', '-'),
  ]

  const cwd = await mkdtemp(join(tmpdir(), 'moving-'))
  const pattern = /^acme_[a-z0-9]{40}$/
  await writeFile(join(cwd, 'package.json'), '{ "type": "module" }')
  await writeFile(join(cwd, 'service.js'), `export const service = { importedKeys: { pattern: ${pattern} } }`)
  const program = [process.execPath, ...programArguments(join(ROOT, 'lib/cli.ts'))]
  const command = `#!/bin/sh\nexec ${program.map((part) => `'${part.replace(/^tsx$/, import.meta.resolve('tsx'))}'`).join(' ')} "$@"\n`
  await writeFile(join(cwd, 'business-api-kit'), command, { mode: 0o755 })
  // Use an address of this machine instead of the example's, which doesn't resolve.
  const here = lines.replace('https://hooks.example/in', 'https://127.0.0.1/in --allow-private-networks')
  assert.notEqual(here, lines)
  const env = {
    ...process.env,
    PATH: `${cwd}${delimiter}${process.env.PATH}`,
    DATABASE_URL: database.url,
    BUSINESS_API_SECRET_KEYS: SECRET_KEY,
    OLD_KEY: oldKey,
    SECRET: secret,
  }
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', here], { cwd, env })
  assert.ok(!stdout.includes(oldKey) && !stdout.includes(secret), stdout)

  const store = createPostgresStore(database.url, { service: defineService({ importedKeys: { pattern } }) })
  t.after(() => store.close())
  const api = createBusinessApi(store, { logger: false })
  const headers = { Authorization: `Bearer ${oldKey}` }
  assert.equal((await api.fetch(new Request('http://localhost/api/v1/clients', { headers }))).status, 200)
  assert.equal((await api.fetch(new Request('http://localhost/api/v1/leads', { headers }))).status, 403)
  const [endpoint] = await store.endpoints.list('org_42')
  const endpointId = endpoint?.id ?? ''
  const target = await store.endpoints.getTarget('org_42', endpointId)
  const sealer = createSecretSealer({ secretKeys: [Buffer.from(SECRET_KEY, 'base64')] })
  const ref = { organizationId: 'org_42', endpointId }
  assert.deepEqual(
    target?.sealedSecrets.map((sealed) => sealer.unseal(sealed, ref)),
    [secret],
  )
})
