import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cli, cliOn, jsonOf, type Result, textOf } from './_cli.ts'
import { addEndpoint, DEVELOPMENT, newOrganization } from './_settings.ts'

// The event types of the service in --service on the command line.

/** A module of a host that doesn't import any package. */
const MODULE = `
const data = { '~standard': { version: 1, vendor: 'own', validate: (value) =>
  typeof value?.bookingId === 'string' ? { value } : { issues: [{ message: 'no id', path: ['bookingId'] }] } } }
const booking = (type) => ({
  type, description: 'A booking changed', data, example: { bookingId: 'bkg_1' }, subject: 'bookingId',
})
export const service = { events: [booking('booking.created'), booking('booking.cancelled')] }
`

let database: TestDatabase
let run: (...args: readonly string[]) => Promise<Result>
let plain: (...args: readonly string[]) => Promise<Result>
let path: string

before(async () => {
  database = await createTestDatabase()
  path = join(await mkdtemp(join(tmpdir(), 'own-events-')), 'service.mjs')
  await writeFile(path, MODULE)
  plain = cliOn(database.url)
  run = cliOn(database.url, { env: { BUSINESS_API_SERVICE: path } })
})
after(() => database.drop())

test('migrate registers the types once', async () => {
  assert.match(
    textOf(await run('migrate', '--print')),
    /^insert into business_api\.event_types .*'booking\.created'/,
  )
  assert.match(
    textOf(await run('migrate')),
    /^Nothing to do: .*\nRegistered booking\.\w+\nRegistered booking\.\w+\n$/,
  )
  assert.deepEqual(jsonOf(await run('migrate', '--json')).events, [])
})

test('migrate registers the types on each shard', async () => {
  const shards = [await createEmptyDatabase(), await createEmptyDatabase()]
  try {
    const DATABASE_URLS = shards.map(({ url }, index) => `s${index}=${url}`).join(',')
    textOf(await cli(['migrate', '--service', path], { env: { DATABASE_URLS } }))
    for (const shard of shards) {
      const rows = await shard.sql()`select type from business_api.event_types order by type`
      assert.deepEqual(
        rows.map(({ type }) => type),
        ['booking.cancelled', 'booking.created'],
      )
    }
  } finally {
    for (const shard of shards) await shard.drop()
  }
})

test('migrate --print prints a script that registers the types', async () => {
  const script = textOf(await run('migrate', '--print'))
  await database.sql().unsafe(script)
  await database.sql().unsafe(script)
})

test('endpoints can select own types, events and deliveries can be filtered by them, and typos are reported', async () => {
  const org = newOrganization()
  const { id } = await addEndpoint(run, org, '--types', 'booking.created,invoice.paid')
  const { id: eventId } = jsonOf(await run('trigger', 'booking.created', '-o', org, '--yes', '--json'))
  assert.match(eventId, /^evt_test_/)
  assert.equal(jsonOf(await run('trigger', 'booking.cancelled', '-o', org, '--json')).endpoints, 0)
  for (const command of ['events', 'deliveries']) {
    const { data } = jsonOf(await run(command, 'list', '-o', org, '--type', 'booking.created', '--json'))
    assert.deepEqual(
      data.map(({ type }: { type: string }) => type),
      ['booking.created'],
    )
    const bySubject = jsonOf(await run(command, 'list', '-o', org, '--subject', 'bkg_1', '--json'))
    assert.equal(bySubject.data.length, command === 'events' ? 2 : 1)
  }
  await run('endpoints', 'update', id, '-o', org, '--types', 'booking.cancelled')
  const { data } = jsonOf(await run('endpoints', 'list', '-o', org, '--json'))
  assert.deepEqual(data[0].types, ['booking.cancelled'])

  const misspelt = /'booking\.creatd' is unknown: did you mean 'booking\.created'\?/
  for (const line of [
    'trigger booking.creatd',
    'events list --type booking.creatd',
    'deliveries recover --type booking.creatd',
    `endpoints update ${id} --types booking.creatd`,
  ])
    assertFailed(await run(...line.split(' '), '-o', org), 2, misspelt)
  assertFailed(await plain('trigger', 'booking.created', '-o', org), 2, /must be one of client\.created/)
})

test('listen forwards own types, and endpoints test sends their example', async (t) => {
  const types: unknown[] = []
  const signals = new EventEmitter()
  const server = createServer((request, response) => {
    types.push(request.headers['x-service-event-type'])
    response.end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const org = newOrganization()
  const watching = cliOn(database.url, { env: { BUSINESS_API_SERVICE: path }, signals })
  const listening = watching('listen', '-o', org, '--forward-to', url, '--types', 'booking.created')
  // The feed starts at some point and returns what is published after that.
  while (types.length === 0) {
    for (const type of ['booking.cancelled', 'booking.created']) await run('trigger', type, '-o', org)
  }
  // The response arrives before the signal does.
  await sleep(500)
  signals.emit('SIGINT')
  assert.match(textOf(await listening), /[1-9] forwarded, 0 failed/)
  assert.deepEqual([...new Set(types)], ['booking.created'])
  const added = ['endpoints', 'add', '-o', org, '--url', url, '--types', 'booking.cancelled', '--json']
  const { id } = jsonOf(await run(...added, ...DEVELOPMENT))
  assert.equal(
    jsonOf(await run('endpoints', 'test', id, '-o', org, '--json', ...DEVELOPMENT)).type,
    'booking.cancelled',
  )
  assert.equal(types.at(-1), 'booking.cancelled')
})
