import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { INVALID_INPUT, INVALID_STATE, NOT_FOUND, SECRET_UNAVAILABLE } from '../../lib/base/errors.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createSetUp, DAY_MS, readSigningSecrets, SECRET, URL } from './_endpoints.ts'
import { assertRefused, untyped } from './_refusals.ts'
import { claim, describeOnEveryStore, newOrganization, publish, record } from './_stores.ts'

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  describe('endpoints.update()', () => {
    test('endpoints.update() changes the given fields and keeps the others', async () => {
      const { settings, organizationId } = setUp()
      const types = ['invoice.paid'] as const
      const given = { url: URL, types, description: 'Books', headers: { 'X-A': '1' } }
      const { secret: _, ...shown } = await settings.endpoints.register(organizationId, given)
      const changes = [
        { description: '' },
        { url: 'https://other.example.com/' },
        { types: null },
        { types: ['lead.created'] },
        { url: URL, description: 'All', types: null },
        {},
        { url: undefined, types: undefined, description: undefined, headers: undefined },
      ] as const
      let expected = shown
      for (const change of changes) {
        const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))
        const version = expected.version + (Object.keys(given).length > 0 ? 1 : 0)
        expected = { ...expected, ...given, version }
        assert.deepEqual(await settings.endpoints.update(organizationId, shown.id, change), expected)
        assert.deepEqual(await settings.endpoints.list(organizationId), [expected])
      }
    })

    test('endpoints.update() accepts no field that only the library may change', async () => {
      const { settings, organizationId } = setUp()
      const { secret: _, ...shown } = await settings.endpoints.register(organizationId, { url: URL })
      const { id } = shown
      for (const name of ['id', 'state', 'failures', 'createdAt', 'version', 'sealedSecret']) {
        await assert.rejects(
          settings.endpoints.update(organizationId, id, untyped({ description: 'x', [name]: 'other' })),
          { code: 'invalid_input', fields: [name] },
        )
      }
      // The arguments before the object take precedence.
      for (const name of ['endpointId', 'organizationId']) {
        const other = untyped({ [name]: 'we_other' }) as object
        await assert.rejects(settings.endpoints.update(organizationId, id, other), { fields: [name] })
      }
      assert.deepEqual(await settings.endpoints.get(organizationId, id), shown)
    })

    test('endpoints.update() applies to pending deliveries', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      await publish(store, organizationId)
      const changes = { url: 'https://other.example.com/', headers: { 'X-B': '2' } }
      await settings.endpoints.update(organizationId, id, changes)
      const [delivery] = await claim(store, organizationId)
      assert.deepEqual([delivery?.url, delivery?.headerNames], [changes.url, ['X-B']])
    })
  })

  describe('states', () => {
    const VERBS = ['pause', 'resume', 'disable', 'enable'] as const
    type Verb = (typeof VERBS)[number]

    const outcomes: [from: Verb[], state: string, after: Record<Verb, string>][] = [
      [[], 'enabled', { pause: 'paused', resume: 'enabled', disable: 'disabled', enable: 'enabled' }],
      [['pause'], 'paused', { pause: 'paused', resume: 'enabled', disable: 'disabled', enable: 'enabled' }],
      [
        ['disable'],
        'disabled',
        { pause: 'refused', resume: 'refused', disable: 'disabled', enable: 'enabled' },
      ],
    ]
    for (const [steps, state, after] of outcomes) {
      for (const verb of VERBS) {
        test(`endpoints.${verb}() of an endpoint that is ${state}: ${after[verb]}`, async () => {
          const { settings, organizationId } = setUp()
          const { secret: _, ...shown } = await settings.endpoints.register(organizationId, { url: URL })
          for (const step of steps) await settings.endpoints[step](organizationId, shown.id)
          const call = settings.endpoints[verb](organizationId, shown.id)
          if (after[verb] === 'refused') {
            const about = new RegExp(` because the endpoint is ${state}: enable the endpoint first$`)
            await assertRefused(call, INVALID_STATE, `Cannot ${verb} a webhook endpoint`, about)
          } else {
            const disabledReason = after[verb] === 'disabled' ? 'administrator' : null
            assert.deepEqual(await call, { ...shown, state: after[verb], disabledReason })
          }
          const [{ state: now } = shown] = await settings.endpoints.list(organizationId)
          assert.equal(now, after[verb] === 'refused' ? state : after[verb])
        })
      }
    }

    test('deliveries of a paused endpoint wait and are sent after resume()', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      await settings.endpoints.pause(organizationId, id)
      const eventId = await publish(store, organizationId)
      assert.deepEqual(await claim(store, organizationId), [])
      await settings.endpoints.resume(organizationId, id)
      const [delivery] = await claim(store, organizationId)
      assert.equal(delivery?.eventId, eventId)
    })

    test('endpoints.disable() keeps the reason of an endpoint disabled by failures, and enable() clears it', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      await publish(store, organizationId)
      const gone = { status: 410, reason: 'gone', isGone: true }
      await record(store, await claim(store, organizationId), 'failed', gone)
      const disabled = await settings.endpoints.disable(organizationId, id)
      assert.deepEqual([disabled.state, disabled.disabledReason, disabled.failures], ['disabled', 'gone', 1])
      assert.ok(disabled.failingSince)
      const enabled = await settings.endpoints.enable(organizationId, id)
      const { state, disabledReason, failures, failingSince } = enabled
      assert.deepEqual(
        { state, disabledReason, failures, failingSince },
        {
          state: 'enabled',
          disabledReason: null,
          failures: 0,
          failingSince: null,
        },
      )
    })
  })

  describe('endpoints.remove()', () => {
    test('endpoints.remove() removes an endpoint from the list and from deliveries without affecting others', async () => {
      const { settings, store, organizationId } = setUp()
      const one = await settings.endpoints.register(organizationId, { url: URL })
      const two = await settings.endpoints.register(organizationId, { url: URL })
      assert.equal(await settings.endpoints.remove(organizationId, one.id), undefined)
      const listed = await settings.endpoints.list(organizationId)
      assert.deepEqual(
        listed.map(({ id }) => id),
        [two.id],
      )
      await publish(store, organizationId)
      const claimed = await claim(store, organizationId)
      assert.deepEqual(
        claimed.map(({ endpointId }) => endpointId),
        [two.id],
      )
    })
  })

  describe('endpoints.rotateSecret()', () => {
    test('endpoints.rotateSecret() returns a new secret once, and the previous one keeps signing for 24 hours', async () => {
      const { settings, store, organizationId } = setUp()
      const one = await settings.endpoints.register(organizationId, { url: URL })
      const earliest = Date.now() + DAY_MS - 60_000
      const { secret, ...shown } = await settings.endpoints.rotateSecret(organizationId, one.id)
      assert.match(secret, SECRET)
      assert.notEqual(secret, one.secret)
      const expiresAt = Date.parse(shown.previousSecretExpiresAt ?? '')
      assert.ok(expiresAt > earliest && expiresAt < earliest + 120_000)
      assert.deepEqual(await settings.endpoints.list(organizationId), [shown])
      assert.deepEqual(await readSigningSecrets(store, organizationId), [secret, one.secret])
    })

    test('endpoints.rotateSecret() within the overlap ends the oldest secret', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      const two = await settings.endpoints.rotateSecret(organizationId, id, { overlapMs: 30 * DAY_MS })
      const three = await settings.endpoints.rotateSecret(organizationId, id, {})
      assert.deepEqual(await readSigningSecrets(store, organizationId), [three.secret, two.secret])
    })

    test('endpoints.rotateSecret() without an overlap immediately ends the previous secret', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      await settings.endpoints.rotateSecret(organizationId, id)
      const last = await settings.endpoints.rotateSecret(organizationId, id, { overlapMs: 0 })
      assert.equal(last.previousSecretExpiresAt, null)
      assert.deepEqual(await readSigningSecrets(store, organizationId), [last.secret])
    })

    test("endpoints.rotateSecret() is rejected if the keys can't open the current secret, unless the overlap is 0", async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      const known = await store.endpoints.getTarget(organizationId, id)
      const other = createDeveloperSettings(store, { secretKeys: [randomBytes(32)] })
      await assert.rejects(other.endpoints.rotateSecret(organizationId, id), { code: SECRET_UNAVAILABLE })
      const after = await store.endpoints.getTarget(organizationId, id)
      assert.deepEqual(after?.sealedSecrets, known?.sealedSecrets)
      await other.endpoints.rotateSecret(organizationId, id, { overlapMs: 0 })
      await other.endpoints.rotateSecret(organizationId, id)
    })

    test('endpoints.rotateSecret() rejects an overlap other than whole milliseconds from 0 to 30 days', async () => {
      const { settings, store, organizationId } = setUp()
      const { id, secret } = await settings.endpoints.register(organizationId, { url: URL })
      for (const overlapMs of [-1, 1.5, 30 * DAY_MS + 1, Number.NaN, Number.POSITIVE_INFINITY, '1', null]) {
        const call = settings.endpoints.rotateSecret(organizationId, id, untyped({ overlapMs }))
        const action = 'Cannot rotate the secret of a webhook endpoint'
        const about = / because overlapMs must be a whole number of milliseconds from 0 to 2592000000$/
        await assertRefused(call, INVALID_INPUT, action, about)
      }
      assert.deepEqual(await readSigningSecrets(store, organizationId), [secret])
    })
  })

  describe('every call about an endpoint', () => {
    /** Every call that takes an endpoint's id, with the action in its messages. */
    function callsOf(endpoints: ReturnType<typeof setUp>['settings']['endpoints']) {
      return {
        'Cannot update a webhook endpoint': (organizationId: string, id: string) =>
          endpoints.update(organizationId, id, { description: 's3cret' }),
        'Cannot pause a webhook endpoint': endpoints.pause,
        'Cannot resume a webhook endpoint': endpoints.resume,
        'Cannot disable a webhook endpoint': endpoints.disable,
        'Cannot enable a webhook endpoint': endpoints.enable,
        'Cannot remove a webhook endpoint': endpoints.remove,
        'Cannot rotate the secret of a webhook endpoint': (organizationId: string, id: string) =>
          endpoints.rotateSecret(organizationId, id),
      }
    }

    test("throws the same not_found for an id that is unknown, removed, another organization's, or invalid", async () => {
      const { settings, organizationId } = setUp()
      const other = newOrganization()
      const { secret: _, ...theirs } = await settings.endpoints.register(other, { url: URL })
      const removed = await settings.endpoints.register(organizationId, { url: URL })
      await settings.endpoints.remove(organizationId, removed.id)
      for (const [action, call] of Object.entries(callsOf(settings.endpoints))) {
        // If the secret itself is passed instead of the id, it must not appear in a message.
        for (const id of [theirs.id, removed.id, 'we_unknown', '', 'nul \0', '\ud800', removed.secret]) {
          const about = /^Cannot [a-z ]* because the organization has no such record$/
          await assertRefused(call(organizationId, id), NOT_FOUND, action, about)
        }
      }
      assert.deepEqual(await settings.endpoints.list(other), [theirs])
    })

    test("rejects an id that isn't a string and an invalid organization id", async () => {
      const { settings, organizationId } = setUp()
      const { endpoints } = settings
      for (const [action, call] of Object.entries(callsOf(endpoints))) {
        for (const id of [null, 1, undefined, {}]) {
          await assertRefused(
            call(organizationId, untyped(id)),
            INVALID_INPUT,
            action,
            / because endpointId must be (given|a string)$/,
          )
        }
        await assertRefused(call('', 'we_1'), INVALID_INPUT, action, / because organizationId must /)
      }
      const list = endpoints.list(untyped(null))
      await assertRefused(
        list,
        INVALID_INPUT,
        'Cannot list webhook endpoints',
        / because organizationId must /,
      )
    })

    test('never shows a secret, sealed or plain, except when it was created', async () => {
      const { settings, organizationId } = setUp()
      const { endpoints } = settings
      const { id, secret } = await endpoints.register(organizationId, { url: URL })
      const rotated = await endpoints.rotateSecret(organizationId, id)
      const shown = [
        await endpoints.list(organizationId),
        await endpoints.update(organizationId, id, { description: 'x' }),
        await endpoints.pause(organizationId, id),
        await endpoints.resume(organizationId, id),
        await endpoints.disable(organizationId, id),
        await endpoints.enable(organizationId, id),
      ]
      const text = JSON.stringify(shown)
      for (const hidden of [secret, rotated.secret, 'whsec_', 'v1.', 'ecret"']) {
        assert.equal(text.includes(hidden), false, hidden)
      }
    })
  })
})
