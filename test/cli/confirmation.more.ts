import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { ageEvents } from '../_days.ts'
import { finishDeliveries, reopenDeliveries } from '../_deliveries.ts'
import { assertFailed, cliOn, jsonOf, type Result, type Surroundings, textOf } from './_cli.ts'
import { publish } from './_events.ts'

// Commands that delete or stop something say what and how much, and ask for confirmation.

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  run = cliOn(database.url)
})

after(() => database.drop())

/** Runs a command in a terminal with 80 columns and an answer. */
const answering = (answer: Surroundings['answer'] = null) => cliOn(database.url, { columns: 80, answer })

/** Text before the carriage return is overwritten. */
const ERASE = '\r\x1b[K'

/** The words on a screen as one line. */
const flat = (text: string): string => text.replaceAll(/\s+/g, ' ')

/** What a command is about to end, and how to check that it still exists. */
interface Danger {
  readonly args: readonly string[]
  /** The consequence in numbers. */
  readonly says: RegExp
  /** The output of a dry run as JSON. */
  readonly facts: object
  /** `true` if nothing has changed. */
  isUntouched(): Promise<boolean>
  /** The action that must be in the audit log once. */
  readonly action: string
}

interface Given {
  readonly org: string
  readonly endpointId: string
  readonly url: string
  readonly keyId: string
}

/** An organization with a key last used 3 minutes ago, and with 14 pending, 3 failed and 2 skipped deliveries. */
async function setUp(org: string): Promise<Given> {
  const url = 'http://127.0.0.1:4000/hook'
  const add = ['endpoints', 'add', '-o', org, '--url', url, '--allow-http', '--allow-private-networks']
  const { id: endpointId } = jsonOf(await run(...add, '--json'))
  const { id: keyId } = jsonOf(await run('keys', 'create', '-o', org, '--scopes', 'leads:read', '--json'))
  await sql`update business_api.api_keys set last_used_at = now() - interval '3 minutes' where id = ${keyId}`
  await publish(sql, org, 19)
  for (const [state, count] of [
    ['failed', 3],
    ['skipped', 2],
  ] as const) {
    const first = sql`(
      select id from business_api.open_deliveries where organization_id = ${org} order by id limit ${count}::int)`
    await finishDeliveries(sql, state, sql`organization_id = ${org} and id in ${first}`)
  }
  return { org, endpointId, url, keyId }
}

const DANGERS: Readonly<Record<string, (given: Given) => Danger>> = {
  'keys revoke': ({ org, keyId }) => ({
    args: [keyId, '-o', org],
    says: new RegExp(
      `Revokes ${keyId} 'Command line' .* of ${org}, last used 3 min ago: every further request`,
    ),
    facts: { id: keyId, name: 'Command line' },
    isUntouched: () => isInForce(keyId),
    action: 'api_key.revoked',
  }),
  'keys rotate': ({ org, keyId }) => ({
    args: [keyId, '-o', org, '--overlap', '0'],
    says: /last used 3 min ago: every further request with the previous key is rejected/,
    facts: { id: keyId, overlapMs: 0 },
    isUntouched: () => isInForce(keyId),
    action: 'api_key.rotated',
  }),
  'endpoints rotate': ({ org, endpointId, url }) => ({
    args: [endpointId, '-o', org, '--overlap', '0'],
    says: /The previous secret ends at once: .* 14 pending deliveries\./,
    facts: { id: endpointId, url, waiting: 14, overlapMs: 0 },
    isUntouched: async () => (await audited(org, 'endpoint.secret_rotated')) === 0,
    action: 'endpoint.secret_rotated',
  }),
  'endpoints disable': ({ org, endpointId, url }) => ({
    args: [endpointId, '-o', org],
    says: /Disables we_\w+ \(http.*\)\. 14 pending deliveries will be skipped; /,
    facts: { id: endpointId, url, waiting: 14 },
    isUntouched: async () => (await stateOf(endpointId)) === 'enabled',
    action: 'endpoint.disabled',
  }),
  'endpoints remove': ({ org, endpointId, url }) => ({
    args: [endpointId, '-o', org],
    says: /14 pending deliveries will be skipped; 5 failed or skipped deliveries can never be recovered/,
    facts: { id: endpointId, url, waiting: 14, recoverable: 5 },
    isUntouched: async () => (await stateOf(endpointId)) === 'enabled',
    action: 'endpoint.removed',
  }),
  'deliveries recover': ({ org }) => ({
    args: ['-o', org],
    says: new RegExp(`Sends 3 failed and 2 skipped deliveries of ${org} again\\.`),
    facts: { failed: 3, skipped: 2, disabled: [] },
    isUntouched: async () => {
      const left = await sql`
        select from business_api.finished_deliveries where organization_id = ${org} and state in ('failed', 'skipped')`
      return left.length === 5
    },
    action: 'deliveries.recovered',
  }),
}

async function isInForce(keyId: string): Promise<boolean> {
  const [key] = await sql`select revoked_at, successor_id from business_api.api_keys where id = ${keyId}`
  return key?.revoked_at === null && key.successor_id === null
}

async function stateOf(endpointId: string): Promise<string> {
  const [endpoint] = await sql`select state from business_api.webhook_endpoints where id = ${endpointId}`
  return endpoint?.state
}

async function audited(org: string, action: string): Promise<number> {
  const { data } = jsonOf(await run('audit', 'list', '-o', org, '--json'))
  return data.filter((entry: { action: string }) => entry.action === action).length
}

let organizations = 0

for (const [command, describeDanger] of Object.entries(DANGERS)) {
  describe(command, () => {
    async function prepare(): Promise<Danger & { readonly org: string }> {
      const given = await setUp(`org_danger_${++organizations}`)
      const danger = describeDanger(given)
      return { ...danger, org: given.org, args: [...command.split(' '), ...danger.args] }
    }

    test('names the subject and does nothing unless confirmed', async () => {
      const { args, says, isUntouched, org, action } = await prepare()
      for (const answer of ['', 'n', 'yes please', null]) {
        const { exitCode, stdout, stderr } = await answering(answer)(...args)
        assert.deepEqual([exitCode, stdout], [1, ''])
        assert.match(flat(stderr), says)
        assert.match(stderr, /\nGo on\? \[y\/N\] \n?business-api-kit: Nothing was changed: not confirmed\n$/)
        assert.ok(stderr.split('\n').every((line) => (line.split(ERASE).at(-1)?.length ?? 0) <= 80))
      }
      assert.equal(await isUntouched(), true)
      assert.equal(await audited(org, action), 0)

      const { exitCode, stderr } = await answering('y')(...args)
      assert.equal(exitCode, 0, stderr)
      assert.equal(await isUntouched(), false)
      assert.equal(await audited(org, action), 1)
    })

    test('requires --yes if there is no terminal', async () => {
      const { args, says, isUntouched, org, action } = await prepare()
      for (const flags of [[], ['--json']]) {
        const result = await run(...args, ...flags)
        assertFailed(result, 2, says)
        assertFailed(
          result,
          2,
          /because there is no terminal to confirm in: .* Pass --yes to go on, or --dry-run/,
        )
        assert.equal(result.stdout, '')
      }
      assert.equal(await isUntouched(), true)
      assert.equal((await run(...args, '--yes')).exitCode, 0)
      assert.equal(await isUntouched(), false)
      assert.equal(await audited(org, action), 1)
    })

    test('--dry-run only prints the consequence, even with --yes', async () => {
      const { args, says, facts, isUntouched } = await prepare()
      const text = textOf(await run(...args, '--dry-run', '--yes'))
      assert.match(text, says)
      assert.match(text, / Nothing was changed\.\n$/)
      const { dryRun, ...found } = jsonOf(await run(...args, '--dry-run', '--json'))
      assert.equal(dryRun, true)
      assert.deepEqual({ ...found, ...facts }, found)
      assert.equal(await isUntouched(), true)
    })
  })
}

test("a rotation with an overlap ends nothing, so it doesn't ask", async () => {
  const { org, keyId, endpointId } = await setUp('org_overlap')
  assert.equal((await run('keys', 'rotate', keyId, '-o', org)).exitCode, 0)
  assert.equal((await run('endpoints', 'rotate', endpointId, '-o', org, '--overlap', '1h')).exitCode, 0)
})

test('says if a key has already ended', async () => {
  const { org, keyId } = await setUp('org_ended')
  await sql`update business_api.api_keys set expires_at = now() - interval '1 day' where id = ${keyId}`
  assert.match(textOf(await run('keys', 'revoke', keyId, '-o', org, '--dry-run')), /it has already expired/)
  await run('keys', 'revoke', keyId, '-o', org, '--yes')
  assert.match(textOf(await run('keys', 'revoke', keyId, '-o', org, '--dry-run')), /it is already revoked/)
})

test('counts stop at 10,000', async () => {
  const { org, endpointId } = await setUp('org_many')
  await publish(sql, org, 10_000)
  const text = textOf(await run('endpoints', 'disable', endpointId, '-o', org, '--dry-run'))
  assert.match(text, /\. 10,000 and more pending deliveries will be skipped/)
})

describe('purge', () => {
  /** Makes all events old, without any deliveries left to send. */
  async function age(ms: number): Promise<void> {
    await finishDeliveries(sql, 'delivered', sql`id in (select id from business_api.open_deliveries)`)
    await ageEvents(sql, ms)
    await sql`analyze business_api.events, business_api.open_deliveries, business_api.finished_deliveries`
  }

  const count = async (): Promise<number> => (await sql`select from business_api.events`).length

  test('shows the number of events, organizations and failed deliveries, and writes an audit entry in each organization', async () => {
    await sql`truncate business_api.events, business_api.open_deliveries, business_api.finished_deliveries`
    for (const org of ['org_purge_1', 'org_purge_2']) await setUp(org)
    await age(40 * 86_400_000)
    const purge = ['purge', '--older-than', '30d']
    const says = /Erases 38 events of 2 organizations, 6 failed deliveries among them: /
    const refused = await answering('no')(...purge)
    assert.equal(refused.exitCode, 1)
    assert.match(flat(refused.stderr), says)
    assertFailed(await run(...purge), 2, says)
    assert.deepEqual(jsonOf(await run(...purge, '--dry-run', '--json')), {
      dryRun: true,
      events: 38,
      organizations: 2,
      failed: 6,
      isPartial: false,
    })
    assert.equal(await count(), 38)

    assert.equal((await answering('yes')(...purge, '--actor', 'olga')).exitCode, 0)
    assert.equal(await count(), 0)
    for (const org of ['org_purge_1', 'org_purge_2']) {
      const { data } = jsonOf(await run('audit', 'list', '-o', org, '--limit', '1', '--json'))
      const { actor, action, subjectId, details } = data[0]
      assert.deepEqual([actor, action, subjectId], ['olga', 'events.purged', org])
      assert.deepEqual(details, { olderThanMs: 30 * 86_400_000, events: 19 })
    }
  })

  test("doesn't erase anything younger than a day unless --allow-recent is passed", async () => {
    await setUp('org_recent')
    await age(2000)
    const purge = ['purge', '--older-than', '1s', '--yes']
    assertFailed(await run(...purge), 2, /because an age below 1d .*; pass --allow-recent/)
    assert.equal(await count(), 19)
    assert.equal((await run(...purge, '--allow-recent')).exitCode, 0)
    assert.equal(await count(), 0)
  })

  test('shows a count at the limit as a lower bound', async () => {
    await setUp('org_much')
    await publish(sql, 'org_much', 10_100)
    await age(40 * 86_400_000)
    await reopenDeliveries(sql, sql`id in (select id from business_api.finished_deliveries limit 5)`)
    assert.match(
      textOf(await run('purge', '--older-than', '30d', '--dry-run')),
      /Erases (9,99\d|10,000) and more events of 1 and more organizations, \d and more failed deliveries/,
    )
  })
})
