import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { INVALID_INPUT, SECRET_UNAVAILABLE } from '../../lib/base/errors.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import {
  createDeveloperSettings,
  type DeveloperSettingsOptions,
  type ResealReport,
} from '../../lib/settings.ts'
import { createSecretSealer } from '../../lib/webhooks/secret-sealing.ts'
import { untyped } from './_refusals.ts'
import { describeOnEveryStore, newOrganization } from './_stores.ts'

// The keys change or are added for the first time, and everything is resealed in parts while there is traffic.

const [OLD, NEW] = [randomBytes(32), randomBytes(32)]
const URL = 'https://hooks.example.com/'
const HEADERS = { Authorization: 'Bearer s3cret' }

describeOnEveryStore((open) => {
  function settingsOf(store: BusinessApiStore, options: DeveloperSettingsOptions) {
    return createDeveloperSettings(store, { allowPrivateNetworks: true, ...options })
  }

  /** Reseals all credentials of an organization part by part. The store may have endpoints of other tests. */
  async function resealAll(
    { secrets }: ReturnType<typeof settingsOf>,
    organizationId: string,
    limit = 1000,
  ): Promise<Omit<ResealReport, 'next'>> {
    const sum = { examined: 0, resealed: 0, unopened: 0, changed: 0 }
    let after: ResealReport['next'] = { organizationId, endpointId: '' }
    while (after !== null && after.organizationId === organizationId) {
      const { next, ...report }: ResealReport = await secrets.reseal({ after, limit })
      for (const name of ['examined', 'resealed', 'unopened', 'changed'] as const) sum[name] += report[name]
      after = next
    }
    return sum
  }

  /** Opens the secrets and headers of an endpoint with only the new key. */
  async function openWithNew(store: BusinessApiStore, organizationId: string, endpointId: string) {
    const target = await store.endpoints.getTarget(organizationId, endpointId)
    assert.ok(target)
    const sealer = createSecretSealer({ secretKeys: [NEW] })
    const ref = { organizationId, endpointId }
    const secrets = target.sealedSecrets.map((sealed) => sealer.unseal(sealed, ref))
    return { secrets, headers: sealer.unsealHeaders(target, ref) }
  }

  describe('secrets.reseal()', () => {
    test('reseals signing secrets, previous secrets and headers with the first key, so that the old one can be removed', async () => {
      const store = open()
      const organizationId = newOrganization()
      const before = settingsOf(store, { secretKeys: [OLD] })
      const first = await before.endpoints.register(organizationId, { url: URL, headers: HEADERS })
      const rotated = await before.endpoints.rotateSecret(organizationId, first.id)
      const plain = await before.endpoints.register(organizationId, { url: URL })
      const shown = [await before.endpoints.list(organizationId), await before.audit.list(organizationId)]

      const both = settingsOf(store, { secretKeys: [NEW, OLD] })
      const report = await resealAll(both, organizationId)
      assert.ok(report.resealed >= 2 && report.examined >= 2, inspect(report))
      assert.deepEqual([report.unopened, report.changed], [0, 0])
      assert.deepEqual(await openWithNew(store, organizationId, first.id), {
        secrets: [rotated.secret, first.secret],
        headers: HEADERS,
      })
      assert.deepEqual(await openWithNew(store, organizationId, plain.id), {
        secrets: [plain.secret],
        headers: {},
      })
      assert.deepEqual(
        [await both.endpoints.list(organizationId), await both.audit.list(organizationId)],
        shown,
        'no reader sees a difference, and no administrator has made a change',
      )
      assert.equal((await resealAll(both, organizationId)).resealed, 0, 'nothing is left to seal')
    })

    test("seals plain text secrets if plain text is allowed, so that it's no longer needed", async () => {
      const store = open()
      const organizationId = newOrganization()
      const without = settingsOf(store, { allowPlaintextSecrets: true })
      const { id, secret } = await without.endpoints.register(organizationId, { url: URL, headers: HEADERS })
      const strict = settingsOf(store, { secretKeys: [NEW] })
      const refused = await resealAll(strict, organizationId)
      assert.deepEqual([refused.resealed, refused.unopened], [0, 1], 'it could be a forged one')
      await assert.rejects(strict.endpoints.rotateSecret(organizationId, id), { code: SECRET_UNAVAILABLE })

      const lenient = settingsOf(store, { secretKeys: [NEW], allowPlaintextSecrets: true })
      assert.equal((await resealAll(lenient, organizationId)).resealed, 1)
      assert.deepEqual(await openWithNew(store, organizationId, id), { secrets: [secret], headers: HEADERS })
      await strict.endpoints.rotateSecret(organizationId, id)
    })

    test('goes through all endpoints in parts of up to `limit`, and can be stopped after any of them', async () => {
      const store = open()
      const organizationId = newOrganization()
      const before = settingsOf(store, { secretKeys: [OLD] })
      const made = []
      for (let count = 0; count < 7; count++) {
        made.push(await before.endpoints.register(organizationId, { url: URL }))
      }
      const both = settingsOf(store, { secretKeys: [NEW, OLD] })
      const start = { organizationId, endpointId: '' }
      const part = await both.secrets.reseal({ after: start, limit: 3 })
      assert.deepEqual([part.examined, part.resealed, part.unopened, part.changed], [3, 3, 0, 0])
      assert.deepEqual(part.next, { organizationId, endpointId: made[2]?.id })
      assert.equal((await both.secrets.reseal({ after: start, limit: 3 })).resealed, 0, 'again')
      const rest = await resealAll(both, organizationId, 3)
      assert.equal(rest.resealed, 4)
      for (const { id, secret } of made) {
        assert.deepEqual((await openWithNew(store, organizationId, id)).secrets, [secret])
      }
    })

    test('keeps and counts credentials that no key can open, and seals the rest', async () => {
      const store = open()
      const organizationId = newOrganization()
      const lost = settingsOf(store, { secretKeys: [randomBytes(32)] })
      const { id } = await lost.endpoints.register(organizationId, { url: URL })
      const known = await settingsOf(store, { secretKeys: [OLD] }).endpoints.register(organizationId, {
        url: URL,
      })
      const before = await store.endpoints.getTarget(organizationId, id)
      const report = await resealAll(settingsOf(store, { secretKeys: [NEW, OLD] }), organizationId)
      assert.deepEqual([report.resealed, report.unopened], [1, 1])
      const after = await store.endpoints.getTarget(organizationId, id)
      assert.deepEqual(after?.sealedSecrets, before?.sealedSecrets)
      assert.deepEqual((await openWithNew(store, organizationId, known.id)).secrets, [known.secret])
    })

    test("doesn't undo a concurrent rotation or patch", async () => {
      const store = open()
      const organizationId = newOrganization()
      const before = settingsOf(store, { secretKeys: [OLD] })
      const endpoints = await Promise.all(
        Array.from({ length: 10 }, () =>
          before.endpoints.register(organizationId, { url: URL, headers: HEADERS }),
        ),
      )
      const both = settingsOf(store, { secretKeys: [NEW, OLD] })
      const rotating = endpoints.map(async ({ id }, index) => {
        const { secret } = await before.endpoints.rotateSecret(organizationId, id, { overlapMs: 0 })
        await both.endpoints.update(organizationId, id, { headers: { 'X-Index': `${index}` } })
        return { id, secret }
      })
      const resealing = [1, 2, 3].map(() => resealAll(both, organizationId, 2))
      const rotated = await Promise.all(rotating)
      await Promise.all(resealing)
      let left = 1
      while (left > 0) {
        const report = await resealAll(both, organizationId)
        assert.equal(report.unopened, 0)
        left = report.resealed + report.changed
      }
      for (const [index, { id, secret }] of rotated.entries()) {
        assert.deepEqual(await openWithNew(store, organizationId, id), {
          secrets: [secret],
          headers: { ...HEADERS, 'X-Index': `${index}` },
        })
      }
    })

    test('drops a previous secret after the overlap, even if no key can open it', async () => {
      const store = open()
      const organizationId = newOrganization()
      const lost = settingsOf(store, { secretKeys: [randomBytes(32)] })
      const { id } = await lost.endpoints.register(organizationId, { url: URL })
      const old = settingsOf(store, { secretKeys: [OLD] })
      const { secret } = await old.endpoints.rotateSecret(organizationId, id, { overlapMs: 0 })
      await old.endpoints.rotateSecret(organizationId, id, { overlapMs: 1 })
      const isExpired = async () =>
        (await old.endpoints.list(organizationId))[0]?.previousSecretExpiresAt === null
      while (!(await isExpired()));
      const both = settingsOf(store, { secretKeys: [NEW, OLD] })
      assert.equal((await resealAll(both, organizationId)).resealed, 1)
      const [stored] = await store.endpoints.listSealed(1, { organizationId, endpointId: '' })
      assert.equal(stored?.previousSealedSecret, null)
      assert.notDeepEqual((await openWithNew(store, organizationId, id)).secrets, [secret])
    })

    test('without keys is rejected with advice', async () => {
      for (const options of [{}, { allowPlaintextSecrets: true }]) {
        await assert.rejects(settingsOf(open(), options).secrets.reseal(), {
          code: SECRET_UNAVAILABLE,
          message: /^Cannot reseal secrets because option 'secretKeys' is empty/,
        })
      }
    })

    test('rejects invalid parts', async () => {
      const { secrets } = settingsOf(open(), { secretKeys: [NEW] })
      for (const [name, values] of Object.entries({
        limit: [0, 1001, 1.5, '5', null],
        after: ['we_1', {}, { organizationId: 7, endpointId: 'we_1' }],
      })) {
        for (const value of values) {
          await assert.rejects(secrets.reseal(untyped({ [name]: value })), {
            code: INVALID_INPUT,
            message: new RegExp(`^Cannot reseal secrets because ${name} must be `),
          })
        }
      }
    })

    test('covers all organizations starting with the first', async () => {
      const store = open()
      const [one, two] = [newOrganization(), newOrganization()].sort()
      assert.ok(one && two)
      const before = settingsOf(store, { secretKeys: [OLD] })
      const made = [
        [one, await before.endpoints.register(one, { url: URL })] as const,
        [two, await before.endpoints.register(two, { url: URL })] as const,
      ]
      const both = settingsOf(store, { secretKeys: [NEW, OLD] })
      for (let after: ResealReport['next'] = null, isFirst = true; isFirst || after; isFirst = false) {
        after = (await both.secrets.reseal({ after })).next
      }
      for (const [organizationId, { id, secret }] of made) {
        assert.deepEqual((await openWithNew(store, organizationId, id)).secrets, [secret])
      }
    })
  })

  test('a delivery loop with both keys continues while everything is resealed', async () => {
    const store = open()
    const organizationId = newOrganization()
    const before = settingsOf(store, { secretKeys: [OLD] })
    const { id, secret } = await before.endpoints.register(organizationId, { url: URL })
    const sealer = createSecretSealer({ secretKeys: [NEW, OLD] })
    const both = settingsOf(store, { secretKeys: [NEW, OLD] })
    let isOver = false
    const resealing = resealAll(both, organizationId).finally(() => {
      isOver = true
    })
    do {
      const target = await store.endpoints.getTarget(organizationId, id)
      const [sealed = ''] = target?.sealedSecrets ?? []
      assert.equal(sealer.unseal(sealed, { organizationId, endpointId: id }), secret)
    } while (!isOver)
    await resealing
  })
})
