import assert from 'node:assert/strict'
import { test } from 'node:test'
import { generateApiKey } from '../../lib/access/api-keys.ts'
import { RESOURCES } from '../../lib/access/scopes.ts'
import { assertError, call } from './_host.ts'
import { endProgram, readBaseUrl, startSource } from './_program.ts'

const EXPECTED = {
  unavailable: { status: 503, retryAfter: '1', error: 'Service temporarily unavailable' },
  bug: { status: 500, retryAfter: null, error: 'Internal error' },
  synchronous: { status: 500, retryAfter: null, error: 'Internal error' },
} as const

for (const host of ['node-http', 'express']) {
  for (const [failure, { status, retryAfter, error }] of Object.entries(EXPECTED)) {
    test(`${host} with a store that fails (${failure}) answers ${status} and lives`, async () => {
      const program = startSource(['test/examples/_failing-host.ts', host, failure])
      const url = await readBaseUrl(program)
      const key = generateApiKey('bapi', 0)

      for (const resource of RESOURCES) {
        const response = await call(`${url}/api/v1/${resource}`, key)
        assert.equal(response.headers.get('retry-after'), retryAfter)
        assert.equal(await assertError(response, status), error)
      }
      const posted = await call(`${url}/api/v1/clients`, key, { name: 'Atlas' }, { 'Idempotency-Key': 'k' })
      assert.equal(await assertError(posted, status), error)

      assert.equal(await (await fetch(`${url}/own`)).text(), 'host')
      assert.equal((await fetch(`${url}/openapi.json`)).status, 200)
      // The detail is the operator's: in the log, nowhere else.
      assert.match(program.stderr(), /hunter2/)
      assert.doesNotMatch(program.stderr(), /unhandled/i)
      await endProgram(program)
      assert.equal(await program.exit, 0)
    })
  }
}
