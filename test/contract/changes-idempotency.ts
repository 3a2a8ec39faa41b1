import assert from 'node:assert/strict'
import type { ChangeKeyReservation } from '../../lib/writes/change.ts'
import {
  changeClaim,
  createItem,
  eventTemplate,
  type Item,
  listed,
  type Outcome,
  type Prepared,
  type Verb,
  verbs,
} from './changing.ts'
import type { StoreHarness } from './harness.ts'
import { createTenant, ids, type Tenant, WEEK_MS } from './tenant.ts'

/** Tests idempotency keys of changes (specification, section 4, rule 4, and decisions.md, section 3). */
export function testChangesIdempotency(harness: StoreHarness): void {
  for (const verb of Object.values(verbs)) {
    testReplay(harness, verb)
    testRefusal(harness, verb)
    testRace(harness, verb)
  }
  testEntries(harness)
  testWindow(harness)
}

const OTHER_FINGERPRINT = '0'.repeat(64)

/** Sends a new change, like a retry with the same key. */
function send(
  tenant: Tenant,
  verb: Verb,
  recordId: string,
  idempotency: ChangeKeyReservation,
  { store = tenant.store, ...changes }: Partial<Prepared> & { readonly store?: Tenant['store'] } = {},
): Promise<Outcome> {
  return verb.prepare(tenant, recordId, { idempotency, ...changes }).send(store)
}

function testReplay(harness: StoreHarness, verb: Verb): void {
  harness.test(
    `${verb.name} with a used key replays the record of the first call and changes nothing`,
    async () => {
      const tenant = await createTenant(harness)
      const item = await createItem(tenant, verb)
      const claim = changeClaim()
      const events = [eventTemplate(verb, item)]
      const first = await send(tenant, verb, item.id, claim, { events })
      const recorded = await tenant.events()
      await verb.prepare(tenant, item.id).send()
      const now = await listed(tenant, verb, item.id)
      for (const store of [tenant.store, tenant.secondStore]) {
        const retry = { store, from: ['nowhere'], events: [eventTemplate(verb, item)] }
        const replay = await send(tenant, verb, item.id, claim, retry)
        assert.equal(replay.outcome, 'replayed')
        assert.deepEqual(
          'reply' in replay && JSON.parse(replay.reply),
          'representation' in first && first.representation,
        )
      }
      assert.deepEqual(await listed(tenant, verb, item.id), now)
      assert.deepEqual(await tenant.events(), recorded)
    },
  )

  harness.test(
    `${verb.name} with a key used with a different fingerprint is a mismatch and does nothing`,
    async () => {
      const tenant = await createTenant(harness)
      const [item, other] = [await createItem(tenant, verb), await createItem(tenant, verb)]
      const claim = changeClaim()
      await send(tenant, verb, item.id, claim)
      const otherClaim = { ...claim, fingerprint: OTHER_FINGERPRINT }
      for (const id of [item.id, other.id, ids('cli')]) {
        const events = [eventTemplate(verb, item)]
        assert.deepEqual(await send(tenant, verb, id, otherClaim, { events }), { outcome: 'mismatch' })
      }
      assert.deepEqual(await listed(tenant, verb, item.id), verb.after(item))
      assert.deepEqual(await listed(tenant, verb, other.id), other)
      assert.deepEqual(await tenant.events(), [])
      assert.equal((await send(tenant, verb, item.id, claim)).outcome, 'replayed', 'the first entry stands')
    },
  )

  harness.test(`${verb.name} sent again later does not change the replay of its key`, async () => {
    const tenant = await createTenant(harness)
    const item = await createItem(tenant, verb)
    const claim = changeClaim()
    const change = verb.prepare(tenant, item.id, { idempotency: claim })
    const first = await change.send()
    await verb.prepare(tenant, item.id).send()
    await change.send()
    const replay = await send(tenant, verb, item.id, claim)
    assert.deepEqual(
      'reply' in replay && JSON.parse(replay.reply),
      'representation' in first && first.representation,
    )
  })
}

function testRefusal(harness: StoreHarness, verb: Verb): void {
  harness.test(`${verb.name} that is rejected or finds nothing does not use up the key`, async () => {
    const tenant = await createTenant(harness)
    const item = await createItem(tenant, verb)
    const claim = changeClaim()
    assert.equal((await send(tenant, verb, ids('cli'), claim)).outcome, 'not_found')
    assert.equal((await send(tenant, verb, item.id, claim, { from: ['nowhere'] })).outcome, 'refused')
    const second = { ...claim, fingerprint: OTHER_FINGERPRINT }
    assert.equal((await send(tenant, verb, item.id, second)).outcome, 'changed')
    assert.equal((await send(tenant, verb, item.id, second)).outcome, 'replayed')
    assert.deepEqual(await listed(tenant, verb, item.id), verb.after(item))
  })
}

function testRace(harness: StoreHarness, verb: Verb): void {
  harness.test(
    `of 20 concurrent ${verb.name} with one key in two processes, one changes the record and 19 replay the change`,
    async () => {
      const tenant = await createTenant(harness)
      const item = await createItem(tenant, verb)
      const claim = changeClaim()
      const { store, secondStore } = tenant
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          send(tenant, verb, item.id, claim, {
            from: ['open'],
            store: index % 2 === 0 ? store : secondStore,
            events: [eventTemplate(verb, item)],
          }),
        ),
      )
      const outcomes = answers.map(({ outcome }) => outcome).toSorted()
      assert.deepEqual(outcomes, ['changed', ...Array.from({ length: 19 }, () => 'replayed')])
      const [shown] = answers.flatMap((answer) => ('representation' in answer ? [answer.representation] : []))
      for (const answer of answers) {
        if ('reply' in answer) assert.deepEqual(JSON.parse(answer.reply), shown)
      }
      assert.deepEqual(await listed(tenant, verb, item.id), verb.after(item))
      assert.equal((await tenant.events()).length, 1)
    },
  )
}

function testEntries(harness: StoreHarness): void {
  const verb = verbs.client

  async function expectChanged(tenant: Tenant, item: Item, claim: ChangeKeyReservation): Promise<void> {
    const { outcome } = await send(tenant, verb, item.id, claim)
    assert.equal(outcome, 'changed', `${claim.operation} ${claim.key}`)
  }

  harness.test('an idempotency key is independent of other operations and organizations', async () => {
    const [ours, theirs] = [await createTenant(harness), await createTenant(harness)]
    const claim = changeClaim()
    const other = { ...claim, fingerprint: OTHER_FINGERPRINT }
    const [item, foreign] = [await createItem(ours, verb), await createItem(theirs, verb)]
    await expectChanged(ours, item, claim)
    await expectChanged(ours, item, { ...other, operation: 'projects.hold' })
    await expectChanged(theirs, foreign, other)
    assert.equal((await send(ours, verb, item.id, claim)).outcome, 'replayed')
  })

  harness.test('changes and creations with the same operation share their idempotency keys', async () => {
    const tenant = await createTenant(harness)
    const claim = changeClaim()
    const item = verb.item()
    await verb.kind.create(tenant, { item, idempotency: { ...claim, reply: '{"made":true}' } })
    assert.deepEqual(await send(tenant, verb, item.id, claim), {
      outcome: 'replayed',
      reply: '{"made":true}',
    })
  })
}

function testWindow(harness: StoreHarness): void {
  harness.test(
    'the entry of a change is replayed until its window ends, and then replaced with a new reply and window',
    async () => {
      const tenant = await createTenant(harness)
      const verb = verbs.invoice
      const item = await createItem(tenant, verb)
      const claim = changeClaim()
      const other = { ...claim, fingerprint: OTHER_FINGERPRINT }
      await send(tenant, verb, item.id, claim)
      await tenant.letTimePass(WEEK_MS - 60_000)
      assert.equal((await send(tenant, verb, item.id, other)).outcome, 'mismatch')

      await tenant.letTimePass(60_001)
      assert.equal((await send(tenant, verb, item.id, other, { from: ['nowhere'] })).outcome, 'refused')
      assert.equal((await send(tenant, verb, item.id, other)).outcome, 'changed')
      await tenant.letTimePass(WEEK_MS - 60_000)
      assert.equal((await send(tenant, verb, item.id, other)).outcome, 'replayed')
      assert.equal((await send(tenant, verb, item.id, claim)).outcome, 'mismatch')
    },
  )

  harness.test('a change sent again after its window has ended is not applied again', async () => {
    const tenant = await createTenant(harness)
    const verb = verbs.proposal
    const item = await createItem(tenant, verb)
    const change = verb.prepare(tenant, item.id, { idempotency: changeClaim() })
    await change.send()
    await tenant.letTimePass(WEEK_MS + 1)
    assert.equal((await change.send()).outcome, 'changed')
    assert.deepEqual(await listed(tenant, verb, item.id), verb.after(item))
  })
}
