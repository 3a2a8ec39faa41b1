import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createInspector } from '../../lib/postgres/schema/inspector.ts'
import { createSecretSealer } from '../../lib/webhooks/secret-sealing.ts'
import { verifyWebhook } from '../../lib/webhooks.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { startReceiver } from '../sender/_receiver.ts'
import { assertFailed, cli, cliOn, jsonOf, type Result, SECRET_KEY, textOf } from './_cli.ts'
import { publish } from './_events.ts'

// Keys, endpoints and the delivery log, as an administrator works with them. Each test has an organization of its own.

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  run = cliOn(database.url)
})

after(() => database.drop())

let organizations = 0
const newOrganization = (): string => `org_cli_${++organizations}`

/** What a bar is drawn over with. */
const ERASE = '\r\x1b[K'

const DEVELOPMENT = ['--allow-private-networks', '--allow-http']

async function addEndpoint(
  org: string,
  ...flags: readonly string[]
): Promise<{ id: string; secret: string }> {
  const url = ['--url', 'http://127.0.0.1:4000/hook']
  return jsonOf(
    await run('endpoints', 'add', '--organization', org, ...url, ...DEVELOPMENT, '--json', ...flags),
  )
}

async function findEndpoint(org: string, id: string): Promise<ReturnType<typeof JSON.parse>> {
  const { data } = jsonOf(await run('endpoints', 'list', '--organization', org, '--json'))
  return data.find((endpoint: { id: string }) => endpoint.id === id)
}

describe('an id that the organization does not have', () => {
  const kinds = [
    { command: 'keys revoke', kind: 'key' },
    { command: 'keys rotate', kind: 'key' },
    { command: 'endpoints test', kind: 'endpoint' },
    { command: 'endpoints rotate', kind: 'endpoint' },
    { command: 'endpoints pause', kind: 'endpoint' },
    { command: 'endpoints resume', kind: 'endpoint' },
    { command: 'endpoints enable', kind: 'endpoint' },
    { command: 'endpoints disable', kind: 'endpoint' },
    { command: 'endpoints remove', kind: 'endpoint' },
    { command: 'deliveries show', kind: 'delivery' },
    { command: 'deliveries redeliver', kind: 'delivery' },
    { command: 'deliveries cancel', kind: 'delivery' },
  ] as const
  let existing: Record<(typeof kinds)[number]['kind'], string>

  before(async () => {
    const owner = newOrganization()
    const key = jsonOf(
      await run('keys', 'create', '--organization', owner, '--scopes', 'leads:read', '--json'),
    )
    const endpoint = await addEndpoint(owner)
    await publish(sql, owner)
    const { data } = jsonOf(await run('deliveries', 'list', '--organization', owner, '--json'))
    existing = { key: key.id, endpoint: endpoint.id, delivery: data[0].id }
  })

  for (const { command, kind } of kinds) {
    test(`${command} fails the same for an unknown one and for another organization's`, async () => {
      for (const id of ['nothing_like_it', existing[kind]]) {
        const result = await run(...command.split(' '), id, '--organization', 'org_other', '--json')
        assertFailed(
          result,
          1,
          /^business-api-kit: Cannot [A-Za-z ]+ as the organization has none of that id\n$/,
        )
        assert.equal(result.stdout, '')
      }
    })
  }

  test('changes nothing there', async () => {
    const [endpoint] =
      await sql`select state, previous_sealed_secret from business_api.webhook_endpoints where id = ${existing.endpoint}`
    assert.deepEqual({ ...endpoint }, { state: 'enabled', previous_sealed_secret: null })
    const [key] = await sql`select revoked_at from business_api.api_keys where id = ${existing.key}`
    assert.equal(key?.revoked_at, null)
  })
})

describe('keys', () => {
  test('create gives id and key as JSON, and to people the key alone', async () => {
    const org = newOrganization()
    const args = ['keys', 'create', '--organization', org, '--scopes', 'clients:read,clients:write']
    const created = jsonOf(await run(...args, '--json'))
    assert.deepEqual(Object.keys(created), ['id', 'key'])
    assert.match(created.key, /^bapi_live_[0-9A-Za-z]{49}$/)

    const { exitCode, stdout, stderr } = await run(...args, '--name', 'Website', '--key-prefix', 'acme')
    assert.equal(exitCode, 0)
    assert.match(stdout, /^acme_live_[0-9A-Za-z]{49}\n$/)
    assert.match(stderr, /^Created key_\w+\. The key is shown only once:\n$/)
  })

  test('list and revoke show everything but the key', async () => {
    const org = newOrganization()
    const create = ['keys', 'create', '--organization', org, '--scopes', 'clients:read', '--json']
    const { id, key } = jsonOf(await run(...create, '--name', 'Bleu Nuit', '--expires', '90d'))
    const { id: second } = jsonOf(await run(...create))
    const list = ['keys', 'list', '--organization', org]
    const { data } = jsonOf(await run(...list, '--json'))
    assert.deepEqual(
      data.map((found: { id: string; name: string }) => [found.id, found.name]),
      [
        [second, 'Command line'],
        [id, 'Bleu Nuit'],
      ],
    )
    assert.ok(Math.abs(Date.parse(data[1].expiresAt) - (Date.now() + 90 * 86_400_000)) < 60_000)
    const revoked = jsonOf(await run('keys', 'revoke', second, '--organization', org, '--yes', '--json'))
    assert.ok(revoked.id === second && revoked.revokedAt !== null)
    assert.match(
      textOf(await run('keys', 'revoke', second, '--organization', org, '--yes')),
      /^Revoked key_\w+ \(bapi_live_…\w{4}\)\n$/,
    )

    const table = textOf(await run(...list))
    assert.match(table, /^ID +NAME +KEY +STATE +CREATED +LAST USED +LIMIT +SCOPES\n/)
    assert.match(
      table,
      new RegExp(`^${second} +Command line +bapi_live_….{4} +revoked .* clients:read$`, 'm'),
    )
    assert.match(table, new RegExp(`^${id} +Bleu Nuit +bapi_live_….{4} +until \\d{4}-`, 'm'))
    assert.ok(!(table + JSON.stringify(data)).includes(key))
  })

  test('rotate gives the id and key of the successor, and the key before ends with the overlap', async () => {
    const org = newOrganization()
    const create = ['keys', 'create', '--organization', org, '--scopes', 'leads:read', '--name', 'Form']
    const { id, key } = jsonOf(await run(...create, '--json'))
    const rotate = ['keys', 'rotate', id, '--organization', org]
    const rotated = jsonOf(await run(...rotate, '--overlap', '2h', '--expires', '30d', '--json'))
    assert.deepEqual(Object.keys(rotated), ['id', 'key'])
    assert.ok(rotated.id !== id && rotated.key !== key)
    const { data } = jsonOf(await run('keys', 'list', '--organization', org, '--json'))
    const [successor, previous] = data
    assert.deepEqual([successor.id, successor.name, successor.scopes], [rotated.id, 'Form', ['leads:read']])
    assert.ok(Math.abs(Date.parse(previous.expiresAt) - (Date.now() + 7_200_000)) < 60_000)
    assertFailed(await run(...rotate), 1, /Cannot rotate an API key as the key has been rotated/)
    const again = ['keys', 'rotate', rotated.id, '--organization', org]
    const { stdout, stderr } = await run(...again, '--overlap', '0', '--yes', '--key-prefix', 'acme')
    assert.match(stdout, /^acme_live_[0-9A-Za-z]{49}\n$/)
    assert.match(stderr, /^Created key_\w+; key_\w+ is revoked\. The new key is shown only once:\n$/)
  })

  test('create refuses what settings refuse, in one line', async () => {
    const args = ['keys', 'create', '--organization', 'org_1']
    assertFailed(
      await run(...args, '--scopes', 'all'),
      2,
      /Cannot use --scopes because it must be one or more of clients:read/,
    )
    assertFailed(
      await run(...args, '--scopes', 'leads:read', '--key-prefix', 'No'),
      2,
      /Cannot use --key-prefix because it must be/,
    )
    assertFailed(
      await run(...args, '--scopes', 'leads:read', '--expires', '2020-01-01'),
      2,
      /Cannot use --expires because it must be in the future \(see: business-api-kit keys create --help\)/,
    )
  })
})

describe('endpoints', () => {
  test('add gives id and secret as JSON, and to people the secret alone', async () => {
    const org = newOrganization()
    const added = await addEndpoint(org, '--types', 'invoice.paid, client.created', '--description', 'Books')
    assert.deepEqual(Object.keys(added), ['id', 'secret'])
    assert.match(added.secret, /^whsec_[\w-]{43}$/)
    const endpoint = await findEndpoint(org, added.id)
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
    assert.match(stdout, /^whsec_[\w-]{43}\n$/)
    assert.match(stderr, /^Registered we_\w+\. Its signing secret is shown only once:\n$/)
  })

  test('add judges where webhooks may go, unless it is told not to', async () => {
    const add = ['endpoints', 'add', '--organization', 'org_1', '--url']
    assertFailed(
      await run(...add, 'http://203.0.113.7/'),
      2,
      /url was refused: must be https; --allow-http allows it, for development/,
    )
    const internal = /destination not allowed; --allow-private-networks allows it, for development/
    assertFailed(await run(...add, 'https://127.0.0.1/'), 2, internal)
    assertFailed(await run(...add, 'http://127.0.0.1/', '--allow-http'), 2, internal)
    assertFailed(
      await run(...add, 'https://x.example/', '--types', 'client.gone', ...DEVELOPMENT),
      2,
      /Cannot use --types because it must be one or more of client.created/,
    )
    const own = ['--header', 'X-Acme-Trace: 1', '--header-prefix', 'X-Acme']
    assertFailed(await run(...add, 'https://x.example/', ...own, ...DEVELOPMENT), 2, /--header must be/)
  })

  test('add stores no secret without a key, unless it is told to', async () => {
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

  test('list never shows a secret: of headers it has the names', async () => {
    const org = newOrganization()
    const { id, secret } = await addEndpoint(
      org,
      '--header',
      'Authorization: Bearer t0k3n',
      '--header',
      'X-Team: 7',
    )
    const endpoint = await findEndpoint(org, id)
    assert.deepEqual(endpoint.headerNames, ['Authorization', 'X-Team'])
    const table = textOf(await run('endpoints', 'list', '--organization', org))
    assert.match(table, /^ID +STATE +FAILURES +URL +TYPES +HEADERS +DESCRIPTION\n/)
    assert.match(
      table,
      new RegExp(`^${id} +enabled +0 +http://127.0.0.1:4000/hook +all +Authorization, X-Team +-$`, 'm'),
    )
    for (const shown of [table, JSON.stringify(endpoint)]) {
      assert.ok(!shown.includes('t0k3n') && !shown.includes(secret))
    }
    const [stored] =
      await sql`select endpoint::text from business_api.webhook_endpoints endpoint where id = ${id}`
    assert.doesNotMatch(stored?.endpoint, /t0k3n/)
  })

  test('list fits a table into the terminal and loses nothing', async () => {
    const org = newOrganization()
    const description = 'a very long description '.repeat(5).trim()
    await addEndpoint(org, '--description', description, '--types', 'invoice.paid,invoice.issued')
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

  test('rotate makes another secret, beside the one before for the overlap', async () => {
    const org = newOrganization()
    const { id, secret } = await addEndpoint(org)
    const rotate = ['endpoints', 'rotate', id, '--organization', org]
    const rotated = jsonOf(await run(...rotate, '--overlap', '2h', '--json'))
    assert.deepEqual(Object.keys(rotated), ['id', 'secret'])
    assert.ok(rotated.id === id && rotated.secret !== secret)
    const { previousSecretExpiresAt } = await findEndpoint(org, id)
    assert.ok(Math.abs(Date.parse(previousSecretExpiresAt) - (Date.now() + 7_200_000)) < 60_000)
    assert.match(
      (await run(...rotate)).stderr,
      /The previous secret signs too until \d{4}-.*Z\. The new secret is shown only once:/,
    )
    const { stdout, stderr } = await run(...rotate, '--overlap', '0', '--yes')
    assert.match(stdout, /^whsec_[\w-]{43}\n$/)
    assert.match(stderr, /The previous secret no longer signs\./)
    assert.equal((await findEndpoint(org, id)).previousSecretExpiresAt, null)
    assertFailed(
      await run(...rotate, '--overlap', '31d'),
      2,
      /Cannot use --overlap because it must be at most 30d/,
    )
  })

  test('test sends an example at once, and fails when the answer is not 2xx', async (t) => {
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
    assertFailed(failed, 1, /The test was not delivered: the answer is 500/)
    assert.match(
      failed.stdout,
      /^Delivered +no\nEvent +evt_test_\w+ \(client\.created\)\nAnswer +the answer is 500\nTook /,
    )
    assertFailed(
      await run(...test),
      1,
      /The test was not delivered: destination_not_allowed; --allow-private-networks or --allow-http/,
    )
    const onTerminal = await cliOn(database.url, { columns: 80 })(...test, ...DEVELOPMENT)
    assert.equal(onTerminal.stderr, `${ERASE}Sending an example …${ERASE}`)
    assertFailed(await run(...test, '--type', 'lost'), 2, /Cannot use --type because it must be one of/)
    const noKey = await cli(test, { env: { DATABASE_URL: database.url } })
    assertFailed(
      noKey,
      1,
      /Cannot open the signing secret of endpoint we_\w+ as key \S+ is not among the keys of BUSINESS_API_SECRET_KEYS/,
    )
  })

  test('pause, resume, disable, enable and remove move it from state to state', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(org)
    const move = (name: string, ...flags: readonly string[]) =>
      run('endpoints', name, id, '--organization', org, ...flags)
    assert.equal(jsonOf(await move('pause', '--json')).state, 'paused')
    assert.equal(textOf(await move('resume')), `${id} is enabled\n`)
    assert.equal(jsonOf(await move('disable', '--yes', '--json')).disabledReason, 'administrator')
    assertFailed(await move('pause'), 1, /Cannot pause a webhook endpoint as the endpoint is disabled/)
    assert.match(textOf(await run('endpoints', 'list', '--organization', org)), /disabled \(administrator\)/)
    assert.equal(jsonOf(await move('enable', '--json')).state, 'enabled')
    assert.deepEqual(jsonOf(await move('remove', '--yes', '--json')), { id })
    assert.equal(await findEndpoint(org, id), undefined)
    assertFailed(await move('remove', '--yes'), 1, /none of that id/)
  })
})

describe('deliveries', () => {
  /** Skipped deliveries: what a disabled endpoint leaves behind. */
  async function skip(count: number): Promise<{ org: string; endpointId: string }> {
    const org = newOrganization()
    const { id: endpointId } = await addEndpoint(org)
    await run('endpoints', 'disable', endpointId, '--organization', org, '--yes')
    await publish(sql, org, count)
    await run('endpoints', 'enable', endpointId, '--organization', org)
    return { org, endpointId }
  }

  test('list gives pages, each with what comes next', async () => {
    const { org, endpointId } = await skip(5)
    const list = ['deliveries', 'list', '--organization', org]
    const first = jsonOf(await run(...list, '--limit', '3', '--json'))
    assert.deepEqual([first.data.length, first.next], [3, first.data[2].id])
    const second = jsonOf(await run(...list, '--limit', '3', '--before', first.next, '--json'))
    assert.deepEqual([second.data.length, second.next], [2, null])
    const { stdout, stderr } = await run(...list, '--limit', '3')
    assert.match(stdout, /^ID +TYPE +STATE +ATTEMPTS +REASON +ENDPOINT +CREATED\n/)
    assert.match(
      stdout,
      new RegExp(`^dlv_\\w+ +project.completed +skipped +0 +endpoint_disabled +${endpointId} `, 'm'),
    )
    assert.equal(stderr, `More: --before ${first.next}\n`)
    for (const [log, cursor] of [
      ['deliveries', 'foo'],
      ['audit', first.next],
    ]) {
      const result = await run(log, 'list', '--organization', org, '--before', cursor)
      assertFailed(result, 2, /--before must be null, or the next of a page before: (dlv|aud)_/)
      assert.equal(result.stdout, '')
    }
  })

  test('list filters by endpoint, type, state and time', async () => {
    const { org, endpointId } = await skip(2)
    await publish(sql, org, 1, 'invoice.paid')
    const count = async (...flags: readonly string[]): Promise<number> =>
      jsonOf(await run('deliveries', 'list', '--organization', org, '--json', ...flags)).data.length
    assert.equal(await count(), 3)
    assert.equal(await count('--state', 'skipped'), 2)
    assert.equal(await count('--state', 'skipped,pending', '--endpoint', endpointId), 3)
    assert.equal(await count('--type', 'invoice.paid', '--since', '1h'), 1)
    assert.equal(await count('--until', '1h'), 0)
    assert.equal(await count('--endpoint', 'we_other'), 0)
    const list = ['deliveries', 'list', '--organization', org]
    assertFailed(
      await run(...list, '--state', 'lost'),
      2,
      /Cannot use --state because it must be one or more of pending.* \(see: business-api-kit deliveries list --help\)/,
    )
    assertFailed(await run(...list, '--type', 'lost'), 2, /--type because it must be one of/)
    assertFailed(await run(...list, '--limit', '201'), 2, /limit must be a whole number from 1 to 200/)
  })

  test('show has the attempts as a table and the body byte for byte, and nothing for the terminal to carry out', async () => {
    const { org } = await skip(1)
    const { data } = jsonOf(await run('deliveries', 'list', '--organization', org, '--json'))
    const [{ id, eventId }] = data
    const show = ['deliveries', 'show', id, '--organization', org]
    assert.match(textOf(await run(...show)), /No attempts yet\./)
    await sql`
      insert into business_api.delivery_attempts
      values (${org}, ${id}, 1, now(), 1234.5, 1, 2, 3, 4, 503, null, ${'busy \x1b[2J\nline'}),
             (${org}, ${id}, 2, now(), 10000, null, null, null, null, null, 'timeout', '')`
    const details = jsonOf(await run(...show, '--json'))
    assert.deepEqual([details.id, details.attemptLog.length, details.attemptLog[0].status], [id, 2, 503])
    const text = textOf(await run(...show))
    assert.match(text, new RegExp(`^Delivery +${id}\nEvent +${eventId} \\(project.completed\\)$`, 'm'))
    assert.match(text, /^State +skipped \(endpoint_disabled\)$/m)
    assert.match(text, /^# +STARTED +TOOK +ANSWER +DNS +CONNECT +TLS +FIRST BYTE +BODY$/m)
    assert.match(text, /^1 .* 1\.2 s +503 +1 ms +2 ms +3 ms +4 ms +busy \\u\{1b\}\[2J line$/m)
    assert.match(text, /^2 .* 10\.0 s +timeout +- +- +- +- +-$/m)
    assert.ok(text.endsWith(`\n${details.body}\n`))
  })

  test('redeliver has one sent again', async () => {
    const { org } = await skip(1)
    const { data } = jsonOf(await run('deliveries', 'list', '--organization', org, '--json'))
    const redeliver = ['deliveries', 'redeliver', data[0].id, '--organization', org]
    assert.equal(jsonOf(await run(...redeliver, '--json')).state, 'pending')
    assertFailed(await run(...redeliver), 1, /Cannot redeliver a delivery as the delivery is pending/)
    await sql`update business_api.deliveries set state = 'delivered' where id = ${data[0].id}`
    assert.equal(textOf(await run(...redeliver)), `${data[0].id} is pending\n`)
  })

  test('redeliver and recover say when a disabled endpoint has it skipped again', async () => {
    const { org, endpointId } = await skip(2)
    const { id: other } = await addEndpoint(org)
    const of = ['--organization', org]
    const { data } = jsonOf(await run('deliveries', 'list', ...of, '--json'))
    await run('endpoints', 'disable', other, ...of, '--yes')
    const recover = ['deliveries', 'recover', ...of, '--yes']
    assert.equal((await run('deliveries', 'redeliver', data[0].id, ...of)).stderr, '')
    assert.deepEqual({ ...(await run(...recover)) }, { exitCode: 0, stdout: 'Recovered 1\n', stderr: '' })

    await sql`update business_api.deliveries set state = 'dead_lettered' where organization_id = ${org}`
    await run('endpoints', 'disable', endpointId, ...of, '--yes')
    const redelivered = await run('deliveries', 'redeliver', data[0].id, ...of)
    assert.equal(
      redelivered.stderr,
      `${data[0].id} will be skipped again, because its endpoint is disabled: enable that first\n`,
    )
    for (const flags of [[], ['--endpoint', endpointId]]) {
      await sql`update business_api.deliveries set state = 'dead_lettered' where organization_id = ${org}`
      const recovered = await run(...recover, ...flags)
      assert.equal(recovered.stdout, 'Recovered 2\n')
      assert.equal(
        recovered.stderr,
        `${endpointId} is disabled: deliveries recovered there are skipped again\n`,
      )
    }
  })

  test('recover refuses an endpoint that the organization does not have', async () => {
    const { org } = await skip(1)
    const { endpointId: foreign } = await skip(1)
    for (const id of ['we_other', foreign]) {
      const result = await run('deliveries', 'recover', '--organization', org, '--endpoint', id)
      assertFailed(result, 1, /Cannot recover deliveries because the organization has no endpoint of that id/)
    }
  })

  test('cancel has one not sent that is waiting', async () => {
    const org = newOrganization()
    await addEndpoint(org)
    await publish(sql, org)
    const { data } = jsonOf(await run('deliveries', 'list', '--organization', org, '--json'))
    const cancel = ['deliveries', 'cancel', data[0].id, '--organization', org]
    assert.equal(jsonOf(await run(...cancel, '--json')).state, 'cancelled')
    assertFailed(await run(...cancel), 1, /Cannot cancel a delivery as the delivery is cancelled/)
    await run('deliveries', 'redeliver', data[0].id, '--organization', org)
    assert.equal(textOf(await run(...cancel)), `${data[0].id} is cancelled\n`)
  })

  test('recover has all sent again that the filter lets through, with a bar on a terminal only', async () => {
    const { org, endpointId } = await skip(1100)
    const recover = ['deliveries', 'recover', '--organization', org, '--yes']
    assert.deepEqual(jsonOf(await run(...recover, '--until', '1h', '--json')), { recovered: 0 })
    assert.deepEqual(jsonOf(await run(...recover, '--type', 'invoice.paid', '--json')), { recovered: 0 })
    const onTerminal = cliOn(database.url, { columns: 100 })
    const { stdout, stderr } = await onTerminal(...recover, '--endpoint', endpointId, '--since', '1h')
    assert.equal(stdout, 'Recovered 1,100\n')
    const frames = stderr.split(ERASE)
    assert.equal(frames[3], `Recovering [${'#'.repeat(21)}---] 90 %  1,000 of 1,100`)
    assert.deepEqual(frames.slice(-2), [`Recovering [${'#'.repeat(24)}] 100 %  1,100 of 1,100`, ''])
    assert.deepEqual(jsonOf(await run(...recover, '--json')), { recovered: 0 })
    assertFailed(await run(...recover, '--type', 'lost'), 2, /Cannot use --type because it must be one of/)
  })
})

describe('audit', () => {
  test('list shows every change with who made it, page by page', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(org, '--actor', 'olga')
    const of = ['--organization', org]
    await publish(sql, org)
    const { data: log } = jsonOf(await run('deliveries', 'list', ...of, '--json'))
    const key = jsonOf(await run('keys', 'create', ...of, '--scopes', 'leads:read', '--json'))
    const rotated = jsonOf(await run('keys', 'rotate', key.id, ...of, '--json', '--actor', 'ivan'))
    await run('keys', 'revoke', rotated.id, ...of, '--yes')
    await run('deliveries', 'cancel', log[0].id, ...of)
    await run('deliveries', 'redeliver', log[0].id, ...of)
    await run('endpoints', 'rotate', id, ...of)
    for (const move of ['pause', 'resume', 'disable --yes', 'enable', 'remove --yes'])
      await run('endpoints', ...move.split(' '), id, ...of)

    const { data, next } = jsonOf(await run('audit', 'list', ...of, '--json'))
    assert.equal(next, null)
    assert.deepEqual(
      data
        .map(({ actor, action, subjectId }: Record<string, string>) => [actor, action, subjectId])
        .reverse(),
      [
        ['olga', 'endpoint.registered', id],
        ['cli', 'api_key.created', key.id],
        ['ivan', 'api_key.rotated', key.id],
        ['cli', 'api_key.revoked', rotated.id],
        ['cli', 'delivery.cancelled', log[0].id],
        ['cli', 'delivery.redelivered', log[0].id],
        ['cli', 'endpoint.secret_rotated', id],
        ...['paused', 'resumed', 'disabled', 'enabled', 'removed'].map((done) => [
          'cli',
          `endpoint.${done}`,
          id,
        ]),
      ],
    )
    const page = await run('audit', 'list', ...of, '--limit', '2')
    assert.match(page.stdout, /^AT +ACTOR +ACTION +SUBJECT +DETAILS\n/)
    assert.match(page.stdout, new RegExp(`Z +cli +endpoint.removed +${id} +-\n`))
    assert.equal(page.stderr, `More: --before ${data[1].id}\n`)
    const ofKey = textOf(await run('audit', 'list', ...of, '--subject', key.id))
    assert.match(ofKey, new RegExp(`ivan +api_key.rotated +${key.id} +.*overlapMs: 86400000`))
    assert.match(ofKey, /cli +api_key.created .* scopes: leads:read; expiresAt: null/)
    assert.ok(!JSON.stringify(data).includes(key.key))
  })

  test('list tells actions apart in a narrow terminal', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(org)
    for (const move of ['disable --yes', 'enable', 'remove --yes'])
      await run('endpoints', ...move.split(' '), id, '-o', org)
    const screen = textOf(await cliOn(database.url, { columns: 80 })('audit', 'list', '-o', org))
    for (const done of ['registered', 'disabled', 'enabled', 'removed']) {
      assert.match(screen, new RegExp(`endpoint\\.${done}( |$)`, 'm'))
    }
    assert.ok(screen.split('\n').every((line) => line.length <= 80))
    assert.equal(screen.split(id).length, 5)
  })

  test('has who had deliveries recovered', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(org)
    await run('endpoints', 'disable', id, '--organization', org, '--yes')
    await publish(sql, org, 3)
    await run('deliveries', 'recover', '--organization', org, '--actor', 'olga', '--yes')
    const { data } = jsonOf(await run('audit', 'list', '--organization', org, '--limit', '1', '--json'))
    assert.deepEqual(
      [data[0].actor, data[0].action, data[0].details.recovered],
      ['olga', 'deliveries.recovered', 3],
    )
  })
})

describe('purge', () => {
  test('forgets what is old until nothing is left, and shows a bar on a terminal only', async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(org)
    await publish(sql, org, 2)
    await run('endpoints', 'disable', id, '--organization', org, '--yes')
    await publish(sql, org, 2100)
    await sql`
      update business_api.events set created_at = now() - interval '40 days' where organization_id = ${org}`
    // As autovacuum does within a minute: the plans for empty tables are slow on full ones.
    await sql`analyze business_api.events, business_api.deliveries`
    assert.deepEqual(jsonOf(await run('purge', '--older-than', '50d', '--yes', '--json')), {
      events: 0,
      idempotencyKeys: 0,
    })
    const onTerminal = cliOn(database.url, { columns: 100 })
    const { stdout, stderr } = await onTerminal('purge', '--older-than', '30d', '--yes')
    // Two are still to be sent.
    assert.equal(stdout, 'Erased 2,100 events and 0 expired idempotency keys\n')
    const frames = stderr.split(ERASE)
    assert.equal(frames[1], `Purging [${'#'.repeat(11)}${'-'.repeat(13)}] 47 %  1,000 of 2,102`)
    assert.equal(frames.at(-1), '')
    const [{ left } = {}] =
      await sql`select count(*)::int as left from business_api.events where organization_id = ${org}`
    assert.equal(left, 2)
  })
})

describe('status', () => {
  test('counts what there is, of all organizations', async () => {
    const now = jsonOf(await run('status', '--json'))
    assert.deepEqual(Object.keys(now), ['schema', 'backlog', 'endpoints', 'apiKeys', 'recoverable'])
    const [counts] = await sql`
      select (select count(*)::int from business_api.webhook_endpoints where state = 'enabled') as enabled,
             (select count(*)::int from business_api.api_keys where revoked_at is not null) as revoked,
             (select count(*)::int from business_api.deliveries where state = 'skipped') as skipped`
    assert.deepEqual(
      { enabled: now.endpoints.enabled, revoked: now.apiKeys.revoked, skipped: now.recoverable },
      { ...counts },
    )
    assert.ok(now.backlog.due > 0 && now.backlog.oldestDueMs > 0)
    const text = textOf(await run('status'))
    assert.match(text, /^Schema +\d+, up to date$/m)
    assert.match(text, /^Due +[\d,]+, the oldest for \d/m)
    assert.match(text, /^Endpoints +\d+ enabled, \d+ paused, \d+ disabled$/m)
    assert.match(text, /^API keys +\d+ active, 0 expired, \d+ revoked$/m)
  })
})

test('nothing is left open: the commands have closed their connections', async () => {
  const inspector = createInspector(database.url)
  const open = async (): Promise<number> => {
    const [row] = await sql`
      select count(*)::int as count from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`
    return row?.count
  }
  await inspector.schema()
  assert.equal(await open(), 1)
  await inspector.close()
  // A server takes a moment to notice.
  while ((await open()) > 0);
})
