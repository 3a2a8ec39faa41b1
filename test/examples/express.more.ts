import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertError, call, prepareDatabase, visit } from './_host.ts'
import { endProgram, readBaseUrl, startProgram, startSource } from './_program.ts'

const VERSIONS = {
  4: ['--import', './test/examples/_express4.mjs'],
  5: [],
} as const

for (const [version, flags] of Object.entries(VERSIONS)) {
  test(`examples/express on Express ${version}`, async (t) => {
    const prepared = await prepareDatabase()
    const program = startSource([...flags, 'examples/express.ts'], {
      DATABASE_URL: prepared.databaseUrl,
      PORT: '0',
    })
    const url = await readBaseUrl(program)

    await t.test('serves the API under the prefix, after express.json()', () =>
      visit(`${url}/platform`, prepared.key),
    )

    await t.test('leaves other paths to the host', async () => {
      assert.equal(await (await fetch(`${url}/platform/about`)).text(), "The host's own page\n")
      for (const path of ['/platform/api/v1/unknown', '/api/v1/clients', '/elsewhere']) {
        const response = await call(url + path, prepared.key)
        assert.equal(response.status, 404)
        assert.equal(await response.text(), "The host's own 404\n", path)
      }
    })

    await t.test('answers a body of another media type, which express.json() leaves unread', async () => {
      const response = await fetch(`${url}/platform/api/v1/clients`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${prepared.key}`, 'Content-Type': 'text/plain' },
        body: 'name=Atlas',
      })
      await assertError(response, 415)
    })

    await endProgram(program)
    await prepared.drop()
    assert.equal(await program.exit, 0)
    assert.equal(program.stderr(), '')
  })
}

test('_express4.mjs gives version 4 to a program that imports express', async () => {
  // Only version 4 has app.del.
  const source = "import express from 'express'; console.log(typeof express().del)"
  const seen = await Promise.all(
    Object.values(VERSIONS).map(async (flags) => {
      const program = startProgram(process.execPath, [...flags, '--input-type=module', '-e', source])
      assert.equal(await program.exit, 0, program.stderr())
      return program.stdout().trim()
    }),
  )
  assert.deepEqual(seen, ['function', 'undefined'])
})
