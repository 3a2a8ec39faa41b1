import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createSecretSealer } from '../../lib/webhooks/secret-sealing.ts'
import { verifyWebhook } from '../../lib/webhooks.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { startReceiver } from '../sender/_receiver.ts'
import { assertFailed, cli, cliOn, jsonOf, type Result, SECRET_KEY, textOf } from './_cli.ts'
import { writeService } from './_service.ts'
import { addEndpoint, DEVELOPMENT, ERASE, findEndpoint, newOrganization } from './_settings.ts'

// The webhook endpoint commands. Each test uses a new organization.

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  run = cliOn(database.url)
})

after(() => database.drop())

describe('endpoints', () => {
  test('add prints id and secret as JSON, or only the secret for people', async () => {
    const org = newOrganization()
    const added = await addEndpoint(
      run,
      org,
      '--types',
      'invoice.paid, client.created',
      '--description',
      'Books',
    )
    assert.deepEqual(Object.keys(added), ['id', 'secret'])
    assert.match(added.secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
    const endpoint = await findEndpoint(run, org, added.id)
    assert.deepEqual(
      [endpoint.url, endpoint.types, endpoint.description, endpoint.state],
      ['http://127.0.0.1:4000/hook', ['invoice.paid', 'client.created'], 'Books', 'enabled'],
    )
    const [stored] =
      await sql`select sealed_secret from business_api.webhook_endpoints where id = ${added.id}`
    const sealer = createSecretSealer({ secretKeys: [SECRET_KEY] })
    const ref = { organizationId: org, endpointId: added.id }
    assert.equal(sealer.unseal(stored?.sealed_secret, ref), added.secret)

    const { stdout, stderr } = await run(
      'endpoints',
      'add',
      '--organization',
      org,
      '--url',
      'https://192.0.0.8:8443/',
      ...DEVELOPMENT,
    )
    assert.match(stdout, /^whsec_[A-Za-z0-9+/]{43}=\n$/)
    assert.match(stderr, /^Registered we_\w+\. Its signing secret is shown only once:\n$/)
  })

  test('add --secret-stdin reads the signing secret from the first line of stdin and never prints it', async () => {
    const secret = `whsec_${'q1W2e3R4'.repeat(4)}`
    const add = (org: string, answer: string | null) =>
      cliOn(database.url, { answer })(
        ...['endpoints', 'add', '--organization', org, '--url', 'https://192.0.0.8/'],
        ...DEVELOPMENT,
        '--secret-stdin',
      )
    const org = newOrganization()
    const { exitCode, stdout, stderr } = await add(org, secret)
    assert.deepEqual([exitCode, stderr], [0, ''])
    const [, id = ''] = /^Registered (we_\w+) with the given signing secret\n$/.exec(stdout) ?? []
    const [stored] = await sql`select sealed_secret from business_api.webhook_endpoints where id = ${id}`
    const sealer = createSecretSealer({ secretKeys: [SECRET_KEY] })
    assert.equal(sealer.unseal(stored?.sealed_secret, { organizationId: org, endpointId: id }), secret)
    for (const given of ['', null, 'hush-hush-4711', `${secret} `, `"${secret}"`]) {
      const refused = await add(org, given)
      assertFailed(refused, 2, /--secret-stdin must be at least 24 bytes/)
      assert.doesNotMatch(refused.stderr, /q1W2/)
    }
  })

  test('add rejects http and private addresses without the flags that allow them', async () => {
    const add = ['endpoints', 'add', '--organization', 'org_1', '--url']
    assertFailed(
      await run(...add, 'http://203.0.113.7/'),
      2,
      /url was rejected: must be https; --allow-http allows it, for development/,
    )
    const internal =
      /destination not allowed \(its host is unknown, or leads to a private address\); --allow-private-networks allows it, for development/
    assertFailed(await run(...add, 'https://127.0.0.1/'), 2, internal)
    assertFailed(await run(...add, 'http://127.0.0.1/', '--allow-http'), 2, internal)
    const local = await run(...add, 'http://127.0.0.1:4000/', '--local-development')
    assert.match(local.stdout, /^whsec_/)
    assertFailed(
      await run(...add, 'https://x.example/', '--types', 'client.gone', ...DEVELOPMENT),
      2,
      /--types must be one or more of client.created/,
    )
    const own = ['--header', 'X-Acme-Trace: 1', '--service', await writeService({ headerPrefix: 'X-Acme' })]
    assertFailed(
      await run(...add, 'https://x.example/', ...own, ...DEVELOPMENT),
      2,
      /--header must not have a header that the service sets: 'X-Acme-Trace'/,
    )
  })

  test('add stores no secret without a key unless --allow-plaintext-secrets is passed', async () => {
    const add = [
      'endpoints',
      'add',
      '--organization',
      newOrganization(),
      '--url',
      'https://x.example/',
      ...DEVELOPMENT,
    ]
    const env = { DATABASE_URL: database.url }
    assertFailed(await cli(add, { env }), 2, /Set BUSINESS_API_SECRET_KEYS/)
    const { id, secret } = jsonOf(await cli([...add, '--allow-plaintext-secrets', '--json'], { env }))
    const [stored] = await sql`select sealed_secret from business_api.webhook_endpoints where id = ${id}`
    assert.equal(stored?.sealed_secret, `plain.${secret}`)
  })

  test('list never shows a secret and only the names of headers', async () => {
    const org = newOrganization()
    const { id, secret } = await addEndpoint(
      run,
      org,
      '--header',
      'Authorization: Bearer t0k3n',
      '--header',
      'X-Team: 7',
    )
    const endpoint = await findEndpoint(run, org, id)
    assert.deepEqual(endpoint.headerNames, ['Authorization', 'X-Team'])
    const table = textOf(await run('endpoints', 'list', '--organization', org))
    assert.match(table, /^ID +STATE +FAILURES +URL +TYPES +STANDARD +MAX\/S +(\S+ +)*HEADERS +DESCRIPTION\n/)
    assert.match(
      table,
      new RegExp(
        `^${id} +enabled +0 +http://127.0.0.1:4000/hook +all +- +- +(- +)*Authorization, X-Team +-$`,
        'm',
      ),
    )
    for (const shown of [table, JSON.stringify(endpoint)]) {
      assert.ok(!shown.includes('t0k3n') && !shown.includes(secret))
    }
    const [stored] =
      await sql`select endpoint::text from business_api.webhook_endpoints endpoint where id = ${id}`
    assert.doesNotMatch(stored?.endpoint, /t0k3n/)
  })

  test('add and update set --max-per-second, and update can remove it', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(run, org, '--max-per-second', '0.5')
    const limitOf = async () => (await findEndpoint(run, org, id)).maxPerSecond
    assert.equal(await limitOf(), 0.5)
    const update = ['endpoints', 'update', id, '-o', org, '--max-per-second']
    for (const [word, expected] of [
      ['10', 10],
      ['off', null],
    ] as const) {
      assert.equal((await run(...update, word)).exitCode, 0)
      assert.equal(await limitOf(), expected)
    }
    assertFailed(await run(...update, 'fast'), 2, /--max-per-second must be a number like 10 or 0\.5/)
    assertFailed(await run(...update, '5000'), 2, /a number from 0\.01 to 1000/)
  })

  test('list fits a table into the terminal without losing anything', async () => {
    const org = newOrganization()
    const description = 'a very long description '.repeat(5).trim()
    await addEndpoint(run, org, '--description', description, '--types', 'invoice.paid,invoice.issued')
    const narrow = cliOn(database.url, { columns: 80 })
    const list = ['endpoints', 'list', '-o', org]
    const lines = textOf(await narrow(...list))
      .trimEnd()
      .split('\n')
    assert.deepEqual(
      lines.filter((line) => line.length > 80),
      [],
    )
    const words = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '-')
    const wide = textOf(await narrow(...list, '--wide'))
    assert.deepEqual(words(lines.join('\n')).sort(), words(wide.trimEnd()).sort())
    assert.equal(wide.trimEnd().split('\n').length, 2)
    assert.ok(wide.includes(description))
  })

  test('rotate creates another secret, and the previous one stays active during the overlap', async () => {
    const org = newOrganization()
    const { id, secret } = await addEndpoint(run, org)
    const rotate = ['endpoints', 'rotate', id, '--organization', org]
    const rotated = jsonOf(await run(...rotate, '--overlap', '2h', '--json'))
    assert.deepEqual(Object.keys(rotated), ['id', 'secret'])
    assert.ok(rotated.id === id && rotated.secret !== secret)
    const { previousSecretExpiresAt } = await findEndpoint(run, org, id)
    assert.ok(Math.abs(Date.parse(previousSecretExpiresAt) - (Date.now() + 7_200_000)) < 60_000)
    assert.match(
      (await run(...rotate)).stderr,
      /The previous secret signs too until \d{4}-.*Z\. The new secret is shown only once:/,
    )
    const { stdout, stderr } = await run(...rotate, '--overlap', '0', '--yes')
    assert.match(stdout, /^whsec_[A-Za-z0-9+/]{43}=\n$/)
    assert.match(stderr, /The previous secret no longer signs\./)
    assert.equal((await findEndpoint(run, org, id)).previousSecretExpiresAt, null)
    assertFailed(await run(...rotate, '--overlap', '31d'), 2, /--overlap must be at most 30d/)
  })

  test('test sends an example right away and fails if the response is not 2xx', async (t) => {
    const org = newOrganization()
    const statuses = [204, 500]
    const receiver = await startReceiver(t, (response) => response.writeHead(statuses.shift() ?? 204).end())
    const url = ['--url', `${receiver.origin}/hook`]
    const add = ['endpoints', 'add', '--organization', org, ...url, ...DEVELOPMENT, '--json']
    const { id, secret } = jsonOf(await run(...add))
    const test = ['endpoints', 'test', id, '--organization', org]
    const result = jsonOf(await run(...test, ...DEVELOPMENT, '--type', 'invoice.paid', '--json'))
    assert.deepEqual([result.delivered, result.status, result.type], [true, 204, 'invoice.paid'])
    const [{ headers, body } = assert.fail()] = receiver.requests
    verifyWebhook(body, headers['x-service-signature'], secret)
    assert.equal(JSON.parse(body).id, result.eventId)

    const failed = await run(...test, ...DEVELOPMENT)
    assertFailed(failed, 1, /The test was not delivered: the response is 500/)
    assert.match(
      failed.stdout,
      /^Delivered +no\nEvent +evt_test_\w+ \(client\.created\)\nAnswer +the response is 500\nTook /,
    )
    assertFailed(
      await run(...test),
      1,
      /The test was not delivered: destination_not_allowed; --allow-private-networks or --allow-http/,
    )
    const onTerminal = await cliOn(database.url, { columns: 80 })(...test, ...DEVELOPMENT)
    const frames = onTerminal.stderr.split(ERASE)
    assert.equal(frames[1], 'Sending an example …')
    assert.equal(frames.at(-1), '')
    assertFailed(await run(...test, '--type', 'lost'), 2, /--type must be one of/)
    const noKey = await cli(test, { env: { DATABASE_URL: database.url } })
    assertFailed(
      noKey,
      1,
      /Cannot open the signing secret of endpoint we_\w+ because key \S+ is not among the keys of BUSINESS_API_SECRET_KEYS/,
    )
  })

  test('pause, resume, disable, enable and remove change the state', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(run, org)
    const move = (name: string, ...flags: readonly string[]) =>
      run('endpoints', name, id, '--organization', org, ...flags)
    assert.equal(jsonOf(await move('pause', '--json')).state, 'paused')
    assert.equal(textOf(await move('resume')), `${id} is enabled\n`)
    assert.equal(jsonOf(await move('disable', '--yes', '--json')).disabledReason, 'administrator')
    assertFailed(await move('pause'), 1, /Cannot pause a webhook endpoint because the endpoint is disabled/)
    assert.match(textOf(await run('endpoints', 'list', '--organization', org)), /disabled \(administrator\)/)
    assert.equal(jsonOf(await move('enable', '--json')).state, 'enabled')
    assert.deepEqual(jsonOf(await move('remove', '--yes', '--json')), { id })
    assert.equal(await findEndpoint(run, org, id), undefined)
    assertFailed(await move('remove', '--yes'), 1, /no such record/)
  })
})
