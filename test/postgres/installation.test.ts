import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import postgres from 'postgres'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import {
  createDeliveryLoop,
  createWebhookSender,
  type DeliveryLoop,
  type Notice,
} from '../../lib/webhooks.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { TODAY } from '../_days.ts'
import { assertFailed, cliOn, jsonOf, textOf } from '../cli/_cli.ts'

// A copy of the database doesn't send to customers. We use real copies made with `create database … template`.

const ORG = 'org_copied'

let subscriber: Server
let received = 0
let original: TestDatabase
const copies: string[] = []

before(async () => {
  subscriber = createServer((request, response) => {
    received++
    request.resume().on('end', () => response.writeHead(204).end())
  }).listen(0, '127.0.0.1')
  await once(subscriber, 'listening')
})
beforeEach(async () => {
  received = 0
  original = await createTestDatabase()
  const { port } = subscriber.address() as AddressInfo
  await using store = createPostgresStore(original.url)
  const settings = createDeveloperSettings(store, {
    allowPlaintextSecrets: true,
    allowHttp: true,
    allowPrivateNetworks: true,
  })
  await settings.endpoints.register(ORG, { url: `http://127.0.0.1:${port}/` })
})
after(() => {
  subscriber.closeAllConnections()
  subscriber.close()
})
afterEach(async () => {
  for (const name of copies.splice(0)) await administer((sql) => sql`drop database ${sql(name)} with (force)`)
  await original.drop()
})

async function administer(work: (sql: postgres.Sql) => Promise<unknown>): Promise<void> {
  const url = new URL(original.url)
  url.pathname = '/postgres'
  const sql = postgres(url.href, { max: 1, onnotice: () => {} })
  await work(sql)
  await sql.end()
}

/** Copies the database of a test, like restoring a backup does. */
async function copy(): Promise<string> {
  const url = new URL(original.url)
  const name = `${url.pathname.slice(1)}_copy`
  await administer((sql) => sql`create database ${sql(name)} template ${sql(url.pathname.slice(1))}`)
  copies.push(name)
  url.pathname = `/${name}`
  return url.href
}

/** Publishes two events of a client. */
async function publish(url: string): Promise<void> {
  await using store = createPostgresStore(url)
  await createPlatform(store).clients.create(ORG, { name: 'Atlas' })
}

/** Runs work with a loop of an installation. */
async function withLoop<T>(
  url: string,
  installation: string | undefined,
  work: (loop: DeliveryLoop, notices: Notice[]) => Promise<T>,
): Promise<T> {
  await using store = createPostgresStore(url)
  await using sender = createWebhookSender({ localDevelopment: true })
  const notices: Notice[] = []
  await using loop = createDeliveryLoop(store, sender, {
    installation,
    allowPlaintextSecrets: true,
    logger: false,
    onNotice: (notice) => notices.push(notice),
  })
  return await work(loop, notices)
}

const deliver = (url: string, installation?: string): Promise<{ delivered: number }> =>
  withLoop(url, installation, (loop) => loop.runOnce())

async function untilHeld(loop: DeliveryLoop): Promise<void> {
  while (loop.health().heldBecause == null) await new Promise((resolve) => setTimeout(resolve, 10))
}

describe('Delivery loops with an installation', () => {
  test('the first one names the database, and loops with the same name deliver', async () => {
    await publish(original.url)
    assert.equal((await deliver(original.url, 'production')).delivered, 2)
    await publish(original.url)
    assert.equal((await deliver(original.url, 'production')).delivered, 2)
  })

  for (const [what, other] of [
    ['another name', 'staging'],
    ['no name', undefined],
  ] as const)
    test(`a loop with ${what} sends nothing from the copy, and says what to do`, async () => {
      await deliver(original.url, 'production')
      await publish(original.url)
      const url = await copy()
      await withLoop(url, other, async (loop, notices) => {
        await assert.rejects(loop.runOnce(), {
          code: 'invalid_state',
          message:
            /belongs to the installation 'production'.*BUSINESS_API_INSTALLATION.*cancel --pending.*adopt/,
        })
        loop.start()
        await untilHeld(loop)
        await loop.stop()
        assert.match(loop.health().heldBecause ?? '', /belongs to the installation 'production'/)
        assert.equal(loop.health().lastClaimAgoMs, null)
        const [notice, ...more] = notices
        assert.deepEqual(more, [])
        assert.ok(notice?.kind === 'installation_differs')
        const { advice, ...differs } = notice
        assert.deepEqual(differs, {
          kind: 'installation_differs',
          isWaiting: true,
          installation: other ?? null,
          databaseInstallation: 'production',
        })
        assert.match(advice, /business-api-kit deliveries cancel --pending/)
      })
      assert.equal(received, 0)
      const run = cliOn(url, { env: { BUSINESS_API_INSTALLATION: 'staging' } })
      const refused = await run('deliver', '--once')
      assert.equal(refused.exitCode, 1)
      assert.match(
        refused.stderr,
        /Cannot deliver because the database belongs to the installation 'production'/,
      )
      const judged = await run('doctor')
      assert.equal(judged.exitCode, 1)
      assert.match(
        judged.stdout,
        /fail\s+installation\s+the database belongs to the installation 'production'[\s\S]*the loop belongs to 'staging':\s+loops\s+wait/,
      )

      // As the notice says.
      assert.deepEqual(jsonOf(await run('deliveries', 'cancel', '--pending', '--yes', '--json')), {
        cancelled: 2,
        sending: 0,
      })
      assert.match(textOf(await run('adopt', '--yes')), /belongs to the installation 'staging' from now on/)
      assert.match((await run('doctor')).stdout, /the database belongs to the installation 'staging'/)
      assert.equal((await deliver(url, 'staging')).delivered, 0)
      await publish(url)
      assert.equal((await deliver(url, 'staging')).delivered, 2)
      assert.equal((await deliver(original.url, 'production')).delivered, 2)
    })

  test("a named loop sends nothing from a copy of an unnamed database until it's adopted", async () => {
    await deliver(original.url)
    await publish(original.url)
    const url = await copy()
    await withLoop(url, 'staging', async (loop, notices) => {
      await assert.rejects(loop.runOnce(), {
        code: 'invalid_state',
        message: /has no name, and was restored.*the loop belongs to 'staging'.*cancel --pending.*adopt/,
      })
      loop.start()
      await untilHeld(loop)
      await loop.stop()
      assert.match(loop.health().heldBecause ?? '', /has no name, and was restored/)
      assert.deepEqual(
        notices.map((notice) => [
          notice.kind,
          notice.kind === 'installation_differs' && notice.databaseInstallation,
        ]),
        [['installation_differs', null]],
      )
    })
    assert.equal(received, 0)
    const run = cliOn(url, { env: { BUSINESS_API_INSTALLATION: 'staging' } })
    const judged = await run('doctor')
    assert.equal(judged.exitCode, 1)
    assert.match(
      judged.stdout,
      /fail\s+installation\s+the database has no name, and was restored[\s\S]*belongs\s+to\s+'staging':\s+loops\s+wait/,
    )
    textOf(await run('deliveries', 'cancel', '--pending', '--yes'))
    textOf(await run('adopt', '--yes'))
    await publish(url)
    assert.equal((await deliver(url, 'staging')).delivered, 2)
    assert.equal((await deliver(original.url, 'production')).delivered, 2)
  })

  test('doctor without a name warns about a named database, where loops without a name wait', async () => {
    await deliver(original.url, 'production')
    const { checks } = JSON.parse((await cliOn(original.url)('doctor', '--json')).stdout)
    const { level, message } = checks.find(({ name }: { name: string }) => name === 'installation')
    assert.deepEqual(
      [level, message],
      [
        'warn',
        "the database belongs to the installation 'production', and is where its loops started; the loop has no name: loops wait",
      ],
    )
  })

  test('access to the server’s identifier may be revoked', async () => {
    const sql = original.sql({ max: 1 })
    const role = `${new URL(original.url).pathname.slice(1)}_app`
    await sql.unsafe(`
      create role ${role} login;
      grant usage on schema business_api to ${role};
      grant select, insert, update on business_api.installation to ${role};
      revoke execute on function pg_catalog.pg_control_system() from public;
      set role ${role}`)
    try {
      const check = () => sql`select business_api.check_installation('production') as answer`
      for (const _ of [1, 2])
        assert.deepEqual([...(await check())], [{ answer: { name: 'production', isMoved: false } }])
    } finally {
      await sql.unsafe(`
        reset role;
        grant execute on function pg_catalog.pg_control_system() to public;
        drop owned by ${role};
        drop role ${role}`)
    }
  })

  test('different names when several loops start for the first time: one wins', async () => {
    const names = ['a', 'b', 'c', 'd']
    const done = await Promise.allSettled(names.map((name) => deliver(original.url, name)))
    assert.equal(done.filter(({ status }) => status === 'fulfilled').length, 1)
  })

  test('the name is 1 to 64 visible ASCII characters', async () => {
    for (const wrong of ['', 'a b', 'é', 'x'.repeat(65)])
      await assert.rejects(deliver(original.url, wrong), /Option 'installation' must be/)
  })
})

describe('Delivery loops without an installation', () => {
  test("a copy causes a notice but never stops a loop, until it's adopted", async () => {
    await deliver(original.url)
    await publish(original.url)
    const url = await copy()
    const run = cliOn(url)
    const level = async () =>
      (JSON.parse((await run('doctor', '--json')).stdout).checks as { name: string; level: string }[]).find(
        ({ name }) => name === 'installation',
      )?.level
    assert.equal(await level(), 'warn')
    await withLoop(url, undefined, async (loop, notices) => {
      assert.equal((await loop.runOnce()).delivered, 2)
      await loop.runOnce()
      assert.deepEqual(
        notices.map((notice) => [notice.kind, notice.kind === 'installation_differs' && notice.isWaiting]),
        [['installation_differs', false]],
      )
    })
    textOf(await run('adopt', '--yes'))
    assert.equal(await level(), 'ok')
    await withLoop(url, undefined, async (loop, notices) => {
      await loop.runOnce()
      assert.deepEqual(notices, [])
    })
  })
})

describe('deliveries cancel --pending', () => {
  test("ends the deliveries of all organizations that aren't being sent, with an audit entry for each organization", async () => {
    const sql = original.sql({ max: 1 })
    await sql`
      insert into business_api.open_deliveries
        (organization_id, id, event_id, type, endpoint_id, due_at, attempts, claim_token, claimed_at, lease_until)
      select 'org_' || n % 3, ${TODAY} || lpad(n::text, 6, '0'), 'evt_x', 'client.created', 'we_x', now(), 1,
        case when n < 20 then 'token' end, case when n < 20 then now() end,
        case when n < 10 then now() + interval '1 hour' when n < 20 then now() - interval '1 second' end
      from generate_series(0, 6999) as n`
    await using store = createPostgresStore(original.url)
    const entry = {
      id: 'aud_01K0A7XG5T8YH0ZQK3V9E4R2BN',
      actor: 'olga',
      action: 'delivery.cancelled',
    } as const
    let cancelled = 0
    let sending = 0
    let parts = 0
    for await (const part of store.installation.cancelPending(entry)) {
      cancelled += part.cancelled
      sending += part.sending
      parts++
    }
    assert.deepEqual([cancelled, sending], [6990, 10])
    assert.ok(parts > 1, `${parts} parts`)
    assert.match(
      textOf(await cliOn(original.url)('deliveries', 'cancel', '--pending', '--yes')),
      /^Cancelled 0; 10 are sending: stop the loops, and cancel again/,
    )
    const left =
      await sql`select count(*)::int as count from business_api.open_deliveries where lease_until > now()`
    assert.equal(left[0]?.count, 10)
    const [row] =
      await sql`select count(*)::int as count from business_api.finished_deliveries where state = 'cancelled'`
    assert.equal(row?.count, 6990)
    const entries = await sql`
      select organization_id as org, actor, action, subject_id as subject, (details ->> 'cancelled')::int as count
      from business_api.audit_entries where id = ${entry.id} order by 1`
    assert.deepEqual(
      entries.map(({ org, actor, action, subject }) => [org, actor, action, subject]),
      ['org_0', 'org_1', 'org_2'].map((org) => [org, 'olga', 'delivery.cancelled', org]),
    )
    assert.equal(
      entries.reduce((sum, { count }) => sum + count, 0),
      6990,
    )
  })

  test("asks for confirmation, and isn't for single deliveries", async () => {
    await publish(original.url)
    const asked = cliOn(original.url, { columns: 200, answer: 'n' })
    const refused = await asked('deliveries', 'cancel', '--pending')
    assert.match(refused.stderr, /Cancels 2 pending deliveries of all organizations/)
    assert.equal(refused.exitCode, 1)
    const run = cliOn(original.url)
    assertFailed(await run('deliveries', 'cancel', '--pending'), 2, /no terminal to confirm in/)
    assertFailed(await run('deliveries', 'cancel'), 2, /Missing ID; or pass --pending/)
    assertFailed(await run('deliveries', 'cancel', 'dlv_1', '--pending'), 2, /together/)
    assertFailed(await run('deliveries', 'cancel', 'dlv_1'), 2, /Missing --organization/)
    for (const [args, env] of [
      [['--organization', ORG], {}],
      [[], { BUSINESS_API_ORGANIZATION: ORG }],
    ] as const)
      assertFailed(
        await cliOn(original.url, { env })('deliveries', 'cancel', '--pending', '--yes', ...args),
        2,
        /--pending for one organization.* leave out --organization, and unset BUSINESS_API_ORGANIZATION/,
      )
    const dry = jsonOf(await run('deliveries', 'cancel', '--pending', '--dry-run', '--json'))
    assert.deepEqual(dry, { dryRun: true, pending: 2, installation: null, isMoved: false })
    assertFailed(await run('adopt', '--installation', 'a b', '--yes'), 2, /visible ASCII/)
    jsonOf(await run('adopt', '--installation', 'a', '--dry-run', '--json'))
    assert.equal((await original.sql({ max: 1 })`select from business_api.installation`).length, 0)
    assert.equal((await deliver(original.url)).delivered, 2)
  })
})
