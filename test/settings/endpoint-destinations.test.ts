import assert from 'node:assert/strict'
import type { LookupAddress } from 'node:dns'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { INVALID_INPUT } from '../../lib/base/errors.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import type { Lookup } from '../../lib/webhooks/dns-lookup.ts'
import { createWebhookSender } from '../../lib/webhooks.ts'
import { createSetUp, KEY, URL } from './_endpoints.ts'
import { assertRefused } from './_refusals.ts'
import { describeOnEveryStore } from './_stores.ts'

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  describe('where an endpoint may be', () => {
    const refused: [url: string, reason: RegExp][] = [
      ['hooks.example.com', /url was rejected: must be a URL/],
      ['http://93.184.216.34/', /url was rejected: must be https$/],
      ['ftp://93.184.216.34/', /url was rejected: must be https$/],
      ['https://user:s3cret@93.184.216.34/', /url was rejected: must not contain a user name or password$/],
      ['https://93.184.216.34:22/', /url was rejected: must use port 443 or one from 1024$/],
      ['https://127.0.0.1/', /url was rejected: destination not allowed$/],
      ['https://2130706433/', /url was rejected: destination not allowed$/],
      ['https://10.1.2.3/', /url was rejected: destination not allowed$/],
      ['https://169.254.169.254/latest', /url was rejected: destination not allowed$/],
      ['https://[::1]/', /url was rejected: destination not allowed$/],
      ['https://localhost/', /url was rejected: destination not allowed$/],
    ]
    for (const [url, reason] of refused) {
      test(`endpoints.register() and update() reject ${url} and show no address`, async () => {
        const { settings, organizationId } = setUp({ allowPrivateNetworks: undefined })
        const endpoint = await settings.endpoints.register(organizationId, { url: 'https://93.184.216.34/' })
        const calls = {
          'Cannot register a webhook endpoint': settings.endpoints.register(organizationId, { url }),
          'Cannot update a webhook endpoint': settings.endpoints.update(organizationId, endpoint.id, { url }),
        }
        for (const [action, call] of Object.entries(calls)) {
          await assertRefused(call, INVALID_INPUT, action, reason)
          await call.catch((error) =>
            assert.doesNotMatch(inspect(error.message), /\d+\.\d+\.\d+|::|localhost/),
          )
        }
        const [kept, ...others] = await settings.endpoints.list(organizationId)
        assert.deepEqual([kept?.url, others], ['https://93.184.216.34/', []])
      })
    }

    test('endpoints.register() rejects a name that resolves to a private address without showing it', async () => {
      const { store, organizationId } = setUp()
      const asked: string[] = []
      const answers: readonly LookupAddress[][] = [
        [
          { address: '93.184.216.34', family: 4 },
          { address: '10.1.2.3', family: 4 },
        ],
        [{ address: '93.184.216.34', family: 4 }],
      ]
      const lookup: Lookup = (hostname, _options, callback) => {
        callback(null, answers[asked.push(hostname) - 1] ?? [])
      }
      const { endpoints } = createDeveloperSettings(store, { secretKeys: [KEY], lookup })
      const refusal = endpoints.register(organizationId, { url: URL })
      const about = /url was rejected: destination not allowed$/
      await assertRefused(refusal, INVALID_INPUT, 'Cannot register a webhook endpoint', about)
      await refusal.catch((error) => assert.doesNotMatch(inspect(error), /10\.1\.2\.3|10\.0\.0\.0/))
      await endpoints.register(organizationId, { url: URL })
      assert.deepEqual(asked, ['hooks.example.com', 'hooks.example.com'])
    })

    test('endpoints.register() fails in the same way for internal names with and without an address', async () => {
      const { store, organizationId } = setUp()
      const lookup: Lookup = (hostname, _options, callback) => {
        if (hostname.startsWith('there.')) callback(null, [{ address: '10.1.2.3', family: 4 }])
        else callback(Object.assign(new Error('queryA ENOTFOUND'), { code: 'ENOTFOUND' }), [])
      }
      const { endpoints } = createDeveloperSettings(store, { secretKeys: [KEY], lookup })
      for (const domain of ['corp.example.com', 'internal', 'svc.cluster.local']) {
        const refusals = []
        for (const name of ['there', 'missing']) {
          const call = endpoints.register(organizationId, { url: `https://${name}.${domain}/` })
          await assertRefused(
            call,
            INVALID_INPUT,
            'Cannot register a webhook endpoint',
            /url was rejected: destination not allowed$/,
          )
          refusals.push(await call.catch((error) => inspect({ ...error, message: error.message })))
        }
        assert.equal(refusals[0], refusals[1])
      }
    })

    test('refuseAddresses applies at registration, both to addresses and names', async () => {
      const { store, organizationId } = setUp()
      const lookup: Lookup = (_hostname, _options, callback) =>
        callback(null, [{ address: '93.184.216.34', family: 4 }])
      const options = { secretKeys: [KEY], lookup, refuseAddresses: ['93.184.216.0/24'] }
      const { endpoints } = createDeveloperSettings(store, options)
      for (const url of ['https://93.184.216.34/', URL]) {
        await assertRefused(
          endpoints.register(organizationId, { url }),
          INVALID_INPUT,
          'Cannot register a webhook endpoint',
          /url was rejected: destination not allowed$/,
        )
      }
      await endpoints.register(organizationId, { url: 'https://93.184.217.34/' })
    })

    test('localDevelopment allows hosts in development', async () => {
      const { store, organizationId } = setUp()
      const { endpoints } = createDeveloperSettings(store, { secretKeys: [KEY], localDevelopment: true })
      for (const url of ['http://127.0.0.1:3000/hook', 'http://localhost:3000/', 'https://10.1.2.3/']) {
        assert.equal((await endpoints.register(organizationId, { url })).url, url)
      }
    })

    test('a URL is stored as parsed, on registration and on update', async () => {
      const { store, organizationId } = setUp()
      const { endpoints } = createDeveloperSettings(store, { secretKeys: [KEY], localDevelopment: true })
      const { id } = await endpoints.register(organizationId, { url: 'https://10.0.0.1/' })
      const typed: Record<string, string> = {
        'http:10.1.2.3': 'http://10.1.2.3/',
        'http:\\\\10.1.2.3\\a': 'http://10.1.2.3/a',
        'HTTPS://LOCALHOST:443/a/../b': 'https://localhost/b',
        'http://0x7f.1/é': 'http://127.0.0.1/%C3%A9',
        'http:///127.0.0.1/': 'http://127.0.0.1/',
      }
      for (const [url, stored] of Object.entries(typed)) {
        assert.equal((await endpoints.register(organizationId, { url })).url, stored)
        assert.equal((await endpoints.update(organizationId, id, { url })).url, stored)
      }
      const long = `https://localhost/${'é'.repeat(1000)}`
      await assertRefused(
        endpoints.update(organizationId, id, { url: long }),
        INVALID_INPUT,
        'Cannot update a webhook endpoint',
        /url must be/,
      )
    })

    test('the sender decides at registration unless the settings have rules', async () => {
      const { store, organizationId } = setUp()
      const sender = createWebhookSender({ localDevelopment: true })
      const url = 'http://127.0.0.1:3000/hook'
      const bySender = createDeveloperSettings(store, { secretKeys: [KEY], sender })
      assert.equal((await bySender.endpoints.register(organizationId, { url })).url, url)
      const byRules = createDeveloperSettings(store, { secretKeys: [KEY], sender, allowHttp: false })
      await assert.rejects(byRules.endpoints.register(organizationId, { url }), { code: INVALID_INPUT })
    })

    test('allowPrivateNetworks and allowHttp allow hosts in development', async () => {
      const { settings, organizationId } = setUp({ allowHttp: true })
      for (const url of ['http://127.0.0.1:3000/hook', 'http://localhost:3000/', 'https://10.1.2.3/']) {
        assert.equal((await settings.endpoints.register(organizationId, { url })).url, url)
      }
    })
  })
})
