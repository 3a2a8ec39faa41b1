import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createExpiryWatch } from '../../lib/delivery/maintenance-tasks.ts'
import type { ExpiryRequest, Notice } from '../../lib/webhooks/notices.ts'
import { newEntry } from '../_audit.ts'
import {
  AN_HOUR_MS,
  addEndpoint,
  createTestSender,
  describeOnPostgres,
  describeOnStores,
  ids,
  type LoopStore,
  NO_POLL,
  ORG,
  until,
} from './_loop.ts'
import { addKey, expireBoth, listen } from './_notices.ts'

// Notices about expiries, sent once across all processes.

const DAY_MS = 24 * AN_HOUR_MS

describeOnStores('What will expire', (under) => {
  test('causes a notice an hour before for a signing secret and 7 days before for a key, including with runOnce()', async () => {
    const keyId = await addKey(under.store, 8 * DAY_MS)
    const endpointId = await addEndpoint(under.store)
    await under.store.endpoints.rotateSecret({
      organizationId: ORG,
      changeId: ids('chg'),
      endpointId,
      sealedSecret: 'plain.whsec_next',
      overlapMs: 8 * DAY_MS,
      entry: newEntry(),
    })
    const heard = listen()
    const loop = under.loop(createTestSender(), { onNotice: heard.onNotice })
    await loop.runOnce()
    assert.deepEqual(heard.kinds, [])
    await under.letTimePass(DAY_MS + 1000)
    await loop.runOnce()
    assert.deepEqual(heard.kinds, ['api_key_expiring'])
    await under.letTimePass(7 * DAY_MS - AN_HOUR_MS)
    await loop.runOnce()
    await loop.runOnce()
    const [endpoint] = await under.store.endpoints.list(ORG)
    const [key, secret, ...others] = heard.notices
    const expected = { kind: 'secret_expiring', organizationId: ORG, endpointId }
    assert.deepEqual([secret, others], [{ ...expected, expiresAt: endpoint?.previousSecretExpiresAt }, []])
    assert.ok(key?.kind === 'api_key_expiring')
    const { expiresAt, ...named } = key
    assert.deepEqual(named, { kind: 'api_key_expiring', organizationId: ORG, keyId, name: 'Website' })
    assert.ok(Date.parse(expiresAt) > Date.now())
  })

  test('causes a notice at the configured times, and none with false', async () => {
    const [keyId, endpointId] = await expireBoth(under)
    const heard = listen()
    const run = (expiryNoticeMs: Parameters<typeof under.loop>[1] & object) =>
      under.loop(createTestSender(), { ...expiryNoticeMs, onNotice: heard.onNotice }).runOnce()
    await run({ expiryNoticeMs: false })
    await run({ expiryNoticeMs: { apiKeys: false, signingSecrets: AN_HOUR_MS / 4 } })
    await run({ expiryNoticeMs: { apiKeys: AN_HOUR_MS / 4, signingSecrets: false } })
    assert.deepEqual(heard.kinds, [])
    await run({ expiryNoticeMs: { signingSecrets: false } })
    await run({ expiryNoticeMs: { apiKeys: false } })
    const told = heard.notices.map((notice) => {
      if ('keyId' in notice) return notice.keyId
      return 'endpointId' in notice ? notice.endpointId : notice.kind
    })
    assert.deepEqual(told, [keyId, endpointId])
  })

  test('causes a single notice if two loops are running', async () => {
    const heard = listen()
    await expireBoth(under)
    const { notices } = under.store
    let answers = 0
    const store: LoopStore = {
      ...under.store,
      notices: { claimExpiring: (request) => notices.claimExpiring(request).finally(() => answers++) },
    }
    const options = { ...NO_POLL, onNotice: heard.onNotice }
    const loops = [0, 1].map(() => under.loop(createTestSender(), options, store))
    for (const loop of loops) loop.start()
    await until('both have asked', () => answers === 2)
    await Promise.all(loops.map((loop) => loop.stop()))
    assert.deepEqual(heard.kinds.toSorted(), ['api_key_expiring', 'secret_expiring'])
  })
})

describeOnPostgres('Two processes', (under) => {
  test('send one notice per expiry if they start at the same time', async () => {
    await expireBoth(under)
    const heard = listen()
    const stores = [under.store, under.secondStore()]
    const loops = [...stores, ...stores].map((store) =>
      under.loop(createTestSender(), { ...NO_POLL, onNotice: heard.onNotice }, store),
    )
    await Promise.all(loops.map((loop) => loop.runOnce()))
    assert.deepEqual(heard.kinds.toSorted(), ['api_key_expiring', 'secret_expiring'])
  })
})

describe('createExpiryWatch()', () => {
  test('repeats a request that got no response with the same token, and no other request', async () => {
    const requests: ExpiryRequest[] = []
    const announced: (readonly Notice[])[] = []
    const notice = {
      kind: 'secret_expiring',
      organizationId: ORG,
      endpointId: 'we_1',
      expiresAt: '',
    } as const
    const store = {
      async claimExpiring(request: ExpiryRequest) {
        if (requests.push(request) === 2) throw storeUnavailable('The answer was lost')
        return [notice]
      },
    }
    const times = { secretsWithinMs: 1, apiKeysWithinMs: null }
    const watch = createExpiryWatch(store, times, (notices) => announced.push(notices))
    assert.equal(await watch(), true)
    await assert.rejects(watch(), { code: 'store_unavailable' })
    await watch()
    await watch()
    const tokens = requests.map(({ token }) => token)
    assert.deepEqual(
      tokens.map((token) => tokens.indexOf(token)),
      [0, 1, 1, 3],
    )
    assert.deepEqual(announced, [[notice], [notice], [notice]])
    const [{ token: _, limit, ...asked } = { token: '', limit: 0 }] = requests
    assert.deepEqual([asked, limit > 0], [times, true])
  })

  test('has more to do if there were as many results as the limit', async () => {
    const notice = {
      kind: 'secret_expiring',
      organizationId: ORG,
      endpointId: 'we_1',
      expiresAt: '',
    } as const
    const store = {
      claimExpiring: async ({ limit }: ExpiryRequest) => Array.from({ length: limit }, () => notice),
    }
    const watch = createExpiryWatch(store, { secretsWithinMs: 1, apiKeysWithinMs: 1 }, () => {})
    assert.equal(await watch(), false)
  })
})
