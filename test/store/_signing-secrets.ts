import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newEntry } from '../_audit.ts'
import type { StoreHarness } from './_contract.ts'
import { claimOne, createPublisher, onlyEndpoint, shown, storeTime, TIMESTAMP } from './_delivering.ts'
import type { Tenant } from './_tenant.ts'

/** With what deliveries are signed, before, during and after a rotation. */
export function testSigningSecrets(harness: StoreHarness): void {
  const OVERLAP_MS = 3_600_000

  async function sealedSecretsOf(tenant: Tenant): Promise<readonly string[]> {
    await tenant.publish()
    const { endpointId, sealedSecrets } = await claimOne(tenant)
    const target = await tenant.store.endpoints.getTarget(tenant.id, endpointId)
    assert.deepEqual(target?.sealedSecrets, sealedSecrets, 'a test is signed as a delivery is')
    return sealedSecrets
  }

  test('endpoints.rotateSecret() lets the secret before sign too, after the current one, until the overlap has ended', async (t) => {
    const tenant = await createPublisher(harness, t)
    const endpoint = await tenant.insertEndpoint({ sealedSecret: 'first' })
    const rotated = await tenant.store.endpoints.rotateSecret(
      tenant.id,
      endpoint.id,
      'second',
      OVERLAP_MS,
      newEntry(),
    )
    const expiresAt = rotated?.previousSecretExpiresAt ?? ''
    assert.deepEqual(rotated, { ...shown(endpoint), previousSecretExpiresAt: expiresAt })
    assert.match(expiresAt, TIMESTAMP)
    const leftMs = Date.parse(expiresAt) - (await storeTime(tenant))
    assert.ok(leftMs > OVERLAP_MS - 10_000 && leftMs <= OVERLAP_MS, `${leftMs}`)

    await tenant.letTimePass(OVERLAP_MS - 10_000)
    assert.deepEqual(await sealedSecretsOf(tenant), ['second', 'first'])
    await tenant.letTimePass(10_001)
    assert.deepEqual(await sealedSecretsOf(tenant), ['second'])
    assert.equal((await onlyEndpoint(tenant)).previousSecretExpiresAt, null)
  })

  test('endpoints.rotateSecret() with an overlap of 0 lets the new secret alone sign', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint({ sealedSecret: 'first' })
    await tenant.store.endpoints.rotateSecret(tenant.id, id, 'second', OVERLAP_MS, newEntry())
    const rotated = await tenant.store.endpoints.rotateSecret(tenant.id, id, 'third', 0, newEntry())
    assert.equal(rotated?.previousSecretExpiresAt, null)
    assert.deepEqual(await sealedSecretsOf(tenant), ['third'])
  })

  test('endpoints.rotateSecret() twice lets the last two sign, and the first no more', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint({ sealedSecret: 'first' })
    await tenant.store.endpoints.rotateSecret(tenant.id, id, 'second', OVERLAP_MS, newEntry())
    await tenant.letTimePass(OVERLAP_MS / 2)
    await tenant.secondStore.endpoints.rotateSecret(tenant.id, id, 'third', OVERLAP_MS, newEntry())
    await tenant.letTimePass(OVERLAP_MS / 2 + 1)
    assert.deepEqual(await sealedSecretsOf(tenant), ['third', 'second'])
  })

  test('endpoints.rotateSecret() to the secret that is the current one changes nothing', async (t) => {
    const tenant = await createPublisher(harness, t)
    const { id } = await tenant.insertEndpoint({ sealedSecret: 'first' })
    const rotated = await tenant.store.endpoints.rotateSecret(tenant.id, id, 'second', OVERLAP_MS, newEntry())
    assert.deepEqual(
      await tenant.store.endpoints.rotateSecret(tenant.id, id, 'second', 0, newEntry()),
      rotated,
    )
    const again = await tenant.secondStore.endpoints.rotateSecret(
      tenant.id,
      id,
      'second',
      OVERLAP_MS * 2,
      newEntry(),
    )
    assert.deepEqual(again, rotated)
    assert.deepEqual(await sealedSecretsOf(tenant), ['second', 'first'])
  })
}
