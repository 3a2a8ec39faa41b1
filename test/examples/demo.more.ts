import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { readCommandLine } from '../../examples/demo/command-line.ts'
import type { Ready } from '../../examples/demo/print.ts'
import { RESOURCES } from '../../lib/access/scopes.ts'
import { EVENT_TYPES } from '../../lib/resources/event-catalogue.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { ROOT } from '../_program.ts'
import { isListening } from '../_waiting.ts'
import { runCurl } from './_curl.ts'
import { assertError, call } from './_host.ts'
import { endProgram, type Program, startProgram, startSource } from './_program.ts'

const DEMO = 'examples/demo/main.ts'
async function readReady(program: Program): Promise<Ready> {
  const [line] = await program.prints(/^.*\n/)
  return JSON.parse(line) as Ready
}

test('--shards 3 serves the organizations of three servers, with their lists, settings and deliveries', async (t) => {
  const program = startSource([DEMO, '--json', '--shards', '3'], { DATABASE_URL: '' })
  t.after(() => endProgram(program))
  const ready = await readReady(program)
  assert.match(ready.env.DATABASE_URLS ?? '', /^a=postgres:.*,b=postgres:.*,c=postgres:/)
  for (const { keys } of ready.organizations) {
    const response = await call(`${ready.baseUrl}/api/v1/clients?limit=200`, keys.all)
    const { data } = (await response.json()) as { data: unknown[] }
    assert.ok(data.length >= 20, String(data.length))
  }
  const page = await fetch(`${ready.baseUrl}/settings/deliveries`)
  assert.match(await page.text(), /Delivered/)
  assert.throws(() => readCommandLine(['--shards', '0']), /--shards 0/)
})

describe('the demo on a database of the reader', () => {
  let database: TestDatabase
  let program: Program
  let inWords: Program
  let ready: Ready

  before(async () => {
    database = await createTestDatabase()
    program = startSource([DEMO, '--json'], { DATABASE_URL: database.url })
    inWords = startSource([DEMO], { DATABASE_URL: database.url })
    ready = await readReady(program)
  })
  after(async () => {
    await endProgram(program)
    await endProgram(inWords)
    await database.drop()
  })

  test('--json prints one line: the base URL, the database, and the keys of two organizations', () => {
    assert.deepEqual(Object.keys(ready), ['baseUrl', 'databaseUrl', 'pid', 'organizations', 'env'])
    assert.equal(ready.databaseUrl, database.url)
    assert.equal(ready.organizations.length, 2)
    for (const organization of ready.organizations) {
      assert.deepEqual(Object.keys(organization), ['id', 'name', 'keys'])
      assert.deepEqual(Object.keys(organization.keys), ['all', 'readOnly', 'revoked', 'expired'])
    }
    assert.equal(program.stdout(), `${JSON.stringify(ready)}\n`)
  })

  test('the settings page is served, its address is printed, and other host names get nothing', async () => {
    const url = `${ready.baseUrl}/settings`
    const page = await fetch(url)
    assert.equal(page.status, 200)
    assert.match(await page.text(), /Jasmin Digital/)
    const endpoints = await fetch(`${url}/endpoints`)
    assert.match(await endpoints.text(), /Demo subscriber/)
    const [printed] = await inWords.prints(/Settings {4}http:\/\/127\.0\.0\.1:\d+\/settings/)
    assert.ok(printed)
    const rebound = await runCurl(`curl -is '${url}' -H 'Host: evil.example'`)
    assert.equal(rebound.status, 401)
    assert.doesNotMatch(rebound.body, /Jasmin/)
  })

  test('past events are dated back, with a body that subscribers can parse', async () => {
    const events = await database.sql()<{ id: string; body: string; at: Date }[]>`
      select id, body, business_api.published_at(delivery_prefix) as at from business_api.events`
    assert.ok(events.some(({ at }) => at.getTime() < Date.now() - 20 * 3_600_000))
    for (const { id, body } of events) assert.equal(JSON.parse(body).id, id)
  })

  test('every list of both organizations is filled, newest first, with records of its organization only', async () => {
    const seen = new Set<string>()
    for (const { keys } of ready.organizations) {
      for (const resource of RESOURCES) {
        const response = await call(`${ready.baseUrl}/api/v1/${resource}?limit=200`, keys.all)
        const { data } = (await response.json()) as { data: { id: string }[] }
        const ids = data.map(({ id }) => id)
        assert.ok(ids.length >= 20, `${resource}: ${ids.length}`)
        assert.deepEqual(ids, ids.toSorted().reverse())
        for (const id of ids) assert.ok(!seen.has(id) && seen.add(id))
      }
    }
  })

  test('invoices are in TND and EUR, in all states, with exactly the decimals of the currency', async () => {
    const key = ready.organizations[0]?.keys.all ?? ''
    const response = await call(`${ready.baseUrl}/api/v1/invoices?limit=200`, key)
    const { data } = (await response.json()) as { data: Record<string, string>[] }
    const states = new Set(data.map(({ status }) => status))
    assert.deepEqual([...states].sort(), ['draft', 'issued', 'overdue', 'paid', 'partially_paid', 'void'])
    assert.deepEqual([...new Set(data.map(({ currency }) => currency))].sort(), ['EUR', 'TND'])
    for (const { currency, total = '' } of data) {
      assert.match(total, currency === 'TND' ? /^\d+\.\d{3}$/ : /^\d+\.\d{2}$/)
    }
  })

  test('the keys work according to their names', async () => {
    const url = `${ready.baseUrl}/api/v1/clients`
    const client = { name: 'Atlas Ceramics' }
    for (const { keys } of ready.organizations) {
      assert.equal((await call(url, keys.all, client)).status, 200)
      assert.equal((await call(url, keys.readOnly)).status, 200)
      await assertError(await call(url, keys.readOnly, client), 403)
      await assertError(await call(url, keys.revoked), 401)
      await assertError(await call(url, keys.expired), 401)
    }
  })

  test('a second run adds new organizations and leaves the keys of the first in force', async () => {
    const second = startSource([DEMO, '--json'], { DATABASE_URL: database.url })
    const { organizations, baseUrl } = await readReady(second)
    const ids = [...ready.organizations, ...organizations].map(({ id }) => id)
    assert.equal(new Set(ids).size, 4)
    const earlier = ready.organizations[0]?.keys.all ?? ''
    assert.equal((await call(`${baseUrl}/api/v1/clients`, earlier)).status, 200)
    await endProgram(second)
  })

  test('every printed curl line runs and is answered as its comment says', async () => {
    await inWords.prints(/Ctrl-C ends the demo/)
    const commands = [...inWords.stdout().matchAll(/^ {2}# (.*)\n {2}(curl .*)$/gm)]
    assert.equal(commands.length, 14)
    for (const [, comment = '', line = ''] of commands) {
      const { status, body } = await runCurl(line)
      assert.equal(status, Number(/^\d{3}/.exec(comment)?.[0] ?? 200), `${line}\n${body}`)
    }
    const replayable = commands.filter(([, comment]) => comment?.includes('replayed'))
    assert.equal(replayable.length, 1)
    const { headers } = await runCurl(replayable[0]?.[2] ?? '')
    assert.equal(headers.get('idempotent-replayed'), 'true')
    assert.doesNotMatch(inWords.stdout(), /postgres:\/\//)
  })

  test('a little business goes on: an event of every type arrives at the subscriber, verified', async () => {
    for (const type of EVENT_TYPES) {
      await inWords.prints(new RegExp(` received ${type.replace('.', '\\.')} evt_`))
    }
  })
})

describe('the demo that starts a PostgreSQL', { concurrency: 3 }, () => {
  test('npm run -s demo -- --json prints nothing more, and Ctrl-C ends every process', async (t) => {
    const directory = await makeDirectory(t)
    const args = ['run', '-s', 'demo', '--', '--json', '--port', '0']
    const program = startProgram('npm', args, { DATABASE_URL: undefined, TMPDIR: directory })
    const ready = await readReady(program)
    const key = ready.organizations[1]?.keys.all ?? ''
    assert.equal((await call(`${ready.baseUrl}/api/v1/clients`, key)).status, 200)
    program.signal('SIGINT')
    assert.equal(await program.exit, 130)
    assert.equal(program.stdout(), `${JSON.stringify(ready)}\n`)
    await assertNothingLeft(directory, ready)
  })

  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    test(`${signal} to npm alone ends the process named in the line, PostgreSQL and the directory`, async (t) => {
      const directory = await makeDirectory(t)
      const env = { ...process.env, DATABASE_URL: '', TMPDIR: directory }
      const npm = spawn('npm', ['run', '-s', 'demo', '--', '--json'], { cwd: ROOT, env, detached: true })
      const { pid } = npm
      assert.ok(pid !== undefined)
      t.after(() => endGroup(pid))
      const [line] = await once(createInterface({ input: npm.stdout }), 'line')
      const ready: Ready = JSON.parse(line)
      assert.equal(isAlive(ready.pid), true)
      npm.kill(signal)
      await once(npm, 'exit')
      const deadline = Date.now() + 15_000
      while (isAlive(ready.pid) && Date.now() < deadline) await sleep(50)
      assert.equal(isAlive(ready.pid), false)
      await assertNothingLeft(directory, ready)
    })
  }

  for (const [what, signals, code] of [
    ['Ctrl-C twice in a row', ['SIGINT', 'SIGINT'], 130],
    ['SIGTERM', ['SIGTERM'], 143],
  ] as const) {
    test(`${what} ends the server, PostgreSQL and its directory`, async (t) => {
      const directory = await makeDirectory(t)
      const program = startSource([DEMO, '--json'], { DATABASE_URL: undefined, TMPDIR: directory })
      const ready = await readReady(program)
      for (const signal of signals) program.signal(signal)
      assert.equal(await program.exit, code)
      await assertNothingLeft(directory, ready)
    })
  }

  for (const [what, signals] of [
    ['Ctrl-C', ['SIGINT']],
    ['Ctrl-C twice in a row', ['SIGINT', 'SIGINT']],
  ] as const) {
    test(`${what} during the start ends the demo too`, async (t) => {
      const directory = await makeDirectory(t)
      const program = startSource([DEMO], { DATABASE_URL: undefined, TMPDIR: directory })
      while (!program.stderr().includes('Preparing') && !program.hasEnded()) await sleep(10)
      for (const signal of signals) program.signal(signal)
      assert.equal(await program.exit, 130)
      assert.equal(program.stdout(), '')
      assert.doesNotMatch(program.stderr(), /Error|^ +at /m)
      await assertNothingLeft(directory)
    })
  }
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Ends the processes that a failed test has left in a process group. */
function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // No process is left.
  }
}

/** A directory for the temporary files of a program. */
async function makeDirectory(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'business-api-demo-test-'))
  // For root the server runs as another user, and that user must be able to enter the directory.
  await chmod(directory, 0o777)
  t.after(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** After a second signal the guard process does the rest shortly after. */
async function assertNothingLeft(directory: string, ready?: Ready): Promise<void> {
  const deadline = Date.now() + 15_000
  while ((await listServers(directory)).length > 0 && Date.now() < deadline) await sleep(50)
  assert.deepEqual(await listServers(directory), [])
  if (ready === undefined) return
  for (const url of [ready.databaseUrl, ready.baseUrl]) {
    assert.equal(await isListening(Number(new URL(url).port)), false)
  }
}

async function listServers(directory: string): Promise<string[]> {
  return (await readdir(directory)).filter((name) => name.startsWith('business-api-postgres-'))
}

describe('the command line of the demo', () => {
  test('a port in use is reported in one line, before anything is started', async (t) => {
    const server = createServer().listen(0, '127.0.0.1')
    t.after(() => server.close())
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : undefined
    const program = startSource([DEMO, '--port', String(port)])
    assert.equal(await program.exit, 1)
    assert.equal(
      program.stderr(),
      `Port ${port} is taken by another program: choose another one with --port N, or leave it out for a free one\n`,
    )
  })

  test('--help prints the options', async () => {
    const program = startSource([DEMO, '--help'])
    assert.equal(await program.exit, 0)
    for (const option of ['--port', '--json', '--help', 'DATABASE_URL'])
      assert.ok(program.stdout().includes(option))
  })

  for (const args of [['--prot', '1'], ['--port', '65536'], ['--port', '0x10'], ['--port'], ['extra']]) {
    test(`${args.join(' ')} is rejected`, () => {
      assert.throws(() => readCommandLine(args), /--prot|--port|extra/)
    })
  }

  test('a wrong argument is reported in words, with exit code 2', async () => {
    const program = startSource([DEMO, '--prot', '1'])
    assert.equal(await program.exit, 2)
    assert.equal(program.stdout(), '')
    assert.equal(program.stderr(), "Unknown option '--prot'\nWhat there is: npm run demo -- --help\n")
  })

  test('a database that cannot be reached is reported in words', async () => {
    const program = startSource([DEMO], { DATABASE_URL: 'postgres://nobody:secret@127.0.0.1:1/none' })
    assert.equal(await program.exit, 1)
    assert.match(
      program.stderr(),
      /^Cannot migrate because PostgreSQL \(127\.0\.0\.1:1, .*\) cannot be used: the connection was refused/m,
    )
    assert.doesNotMatch(program.stderr(), /secret|^ +at /m)
  })
})
