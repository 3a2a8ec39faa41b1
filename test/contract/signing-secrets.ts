import assert from 'node:assert/strict'
import type { SecretRotation } from '../../lib/webhooks/endpoints.ts'
import { newEntry } from './audit-entry.ts'
import { claimOne, createPublisher, onlyEndpoint, shown, storeTime, TIMESTAMP } from './delivering.ts'
import type { StoreHarness } from './harness.ts'
import { callAtOnce, ids, type Tenant } from './tenant.ts'

/** Rotates a secret with the given id, or by default with a new id. */
function rotate(
  { id: organizationId, store }: Tenant,
  endpointId: string,
  sealedSecret: string,
  overlapMs: number,
  changeId: string = ids('chg'),
): Promise<SecretRotation | null> {
  const change = { endpointId, changeId, sealedSecret, overlapMs, entry: newEntry({ subjectId: endpointId }) }
  return store.endpoints.rotateSecret({ organizationId, ...change })
}

function onSecondStore(tenant: Tenant): Tenant {
  return { ...tenant, store: tenant.secondStore }
}

/** Tests which secrets sign deliveries before, during and after a rotation. */
export function testSigningSecrets(harness: StoreHarness): void {
  const OVERLAP_MS = 3_600_000

  async function sealedSecretsOf(tenant: Tenant): Promise<readonly string[]> {
    await tenant.publish()
    const { endpointId, sealedSecrets } = await claimOne(tenant)
    const target = await tenant.store.endpoints.getTarget(tenant.id, endpointId)
    assert.deepEqual(target?.sealedSecrets, sealedSecrets, 'a test is signed as a delivery is')
    return sealedSecrets
  }

  harness.test(
    'endpoints.rotateSecret() signs with the current and then the previous secret until the overlap ends',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const endpoint = await tenant.insertEndpoint({ sealedSecret: 'first' })
      const rotated = await rotate(tenant, endpoint.id, 'second', OVERLAP_MS)
      const expiresAt = rotated?.endpoint.previousSecretExpiresAt ?? ''
      assert.deepEqual(rotated?.endpoint, { ...shown(endpoint), previousSecretExpiresAt: expiresAt })
      assert.match(expiresAt, TIMESTAMP)
      const leftMs = Date.parse(expiresAt) - (await storeTime(tenant))
      assert.ok(leftMs > OVERLAP_MS - 10_000 && leftMs <= OVERLAP_MS, `${leftMs}`)

      await tenant.letTimePass(OVERLAP_MS - 10_000)
      assert.deepEqual(await sealedSecretsOf(tenant), ['second', 'first'])
      await tenant.letTimePass(10_001)
      assert.deepEqual(await sealedSecretsOf(tenant), ['second'])
      assert.equal((await onlyEndpoint(tenant)).previousSecretExpiresAt, null)
    },
  )

  harness.test('endpoints.rotateSecret() with an overlap of 0 only signs with the new secret', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint({ sealedSecret: 'first' })
    await rotate(tenant, id, 'second', OVERLAP_MS)
    const rotated = await rotate(tenant, id, 'third', 0)
    assert.equal(rotated?.endpoint.previousSecretExpiresAt, null)
    assert.deepEqual(await sealedSecretsOf(tenant), ['third'])
  })

  harness.test(
    'endpoints.rotateSecret() twice signs with the last two secrets, but no longer with the first',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id } = await tenant.insertEndpoint({ sealedSecret: 'first' })
      await rotate(tenant, id, 'second', OVERLAP_MS)
      await tenant.letTimePass(OVERLAP_MS / 2)
      await rotate(onSecondStore(tenant), id, 'third', OVERLAP_MS)
      await tenant.letTimePass(OVERLAP_MS / 2 + 1)
      assert.deepEqual(await sealedSecretsOf(tenant), ['third', 'second'])
    },
  )

  harness.test('endpoints.rotateSecret() to the current secret changes nothing', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint({ sealedSecret: 'first' })
    const rotated = await rotate(tenant, id, 'second', OVERLAP_MS)
    assert.deepEqual(await rotate(tenant, id, 'second', 0), rotated)
    const again = await rotate(onSecondStore(tenant), id, 'second', OVERLAP_MS * 2)
    assert.deepEqual(again, rotated)
    assert.deepEqual(await sealedSecretsOf(tenant), ['second', 'first'])
  })

  harness.test('endpoints.rotateSecret() of a used id returns the endpoint unchanged', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint({ sealedSecret: 'first' })
    const other = await tenant.insertEndpoint({ sealedSecret: 'other', types: ['lead.created'] })
    const [changeId, second] = [ids('chg'), ids('chg')]
    const made = await rotate(tenant, id, 'second', OVERLAP_MS, changeId)
    assert.equal(made?.outcome, 'rotated')
    const again = await rotate(onSecondStore(tenant), id, 'third', 0, changeId)
    assert.deepEqual(again, { ...made, outcome: 'already_exists' })
    assert.deepEqual(await sealedSecretsOf(tenant), ['second', 'first'])

    await rotate(tenant, id, 'fourth', OVERLAP_MS, second)
    assert.equal((await rotate(tenant, id, 'fifth', 0, changeId))?.outcome, 'already_exists', 'after another')
    assert.equal(
      (await rotate(tenant, id, 'second', 0, changeId))?.outcome,
      'already_exists',
      'no longer its own',
    )
    assert.deepEqual(await sealedSecretsOf(tenant), ['fourth', 'second'])
    assert.equal(
      (await rotate(tenant, other.id, 'sixth', 0, changeId))?.outcome,
      'rotated',
      'another endpoint',
    )
  })

  harness.test(
    'endpoints.rotateSecret() with one id ten times concurrently in two processes rotates once and reports it to one caller',
    async (t) => {
      const tenant = await createPublisher(harness, t)
      const { id } = await tenant.insertEndpoint({ sealedSecret: 'first' })
      const changeId = ids('chg')
      let count = 0
      const rotations = await callAtOnce(tenant, async (store) => {
        const sealed = `sealed ${++count}`
        return { sealed, rotation: await rotate({ ...tenant, store }, id, sealed, OVERLAP_MS, changeId) }
      })
      const made = rotations.filter(({ rotation }) => rotation?.outcome === 'rotated')
      assert.equal(made.length, 1)
      assert.equal(rotations.filter(({ rotation }) => rotation?.outcome === 'already_exists').length, 9)
      assert.deepEqual(await sealedSecretsOf(tenant), [made[0]?.sealed, 'first'])
    },
  )
}
