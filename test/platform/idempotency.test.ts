import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPlatform } from '../../lib/platform.ts'
import { CALLS, type CallUnderTest, call as callByName, invoke } from './_calls.ts'
import { describeOnEveryStore, type Host, type NewHost, openPostgres, typesOf } from './_platform.ts'
import { createInvoice, invoiceIn, proposalIn } from './_records.ts'

// Idempotency keys of the host's calls work like those of the API (specification, section 4, rule 4).

describeOnEveryStore((newHost) => {
  for (const call of CALLS) {
    testTwice(newHost, call)
    testOtherContent(newHost, call)
    testBadKey(newHost, call)
  }
  testRefused(newHost)
  testScope(newHost)
  testMoments(newHost)
})

const KEY = 'form-17:{"a":[1]}'

/** Returns the record's id in the field of the call. */
async function about(host: Host, { idField, make }: CallUnderTest): Promise<Record<string, string>> {
  const id = await make(host)
  return idField === undefined ? {} : { [idField]: id }
}

function testTwice(newHost: NewHost, call: CallUnderTest): void {
  test(`${call.name} twice with one key returns the same record and happens once`, async () => {
    const host = await newHost()
    const given = { ...(await about(host, call)), idempotencyKey: KEY }
    const before = (await host.events()).length
    const first = await invoke(host, call, given)
    const everything = await host.everything()
    assert.deepEqual((await typesOf(host)).slice(before), call.events)
    assert.deepEqual(await invoke(host, call, given), first)
    // The order of fields doesn't matter.
    const reversed = Object.fromEntries(Object.entries({ ...call.fields, ...given }).toReversed())
    assert.deepEqual(await callByName(host.platform, call.name, host.organizationId, reversed), first)
    assert.deepEqual(await host.everything(), everything)
  })
}

function testOtherContent(newHost: NewHost, call: CallUnderTest): void {
  test(`${call.name} with a key that was used with different content is rejected and changes nothing`, async () => {
    const host = await newHost()
    const given = { ...(await about(host, call)), idempotencyKey: KEY }
    await invoke(host, call, given)
    const other =
      call.others === undefined
        ? [{ ...given, ...(await about(host, call)) }]
        : [{ ...given, ...call.others }]
    const everything = await host.everything()
    for (const otherGiven of other) {
      await assert.rejects(invoke(host, call, otherGiven), {
        code: 'idempotency_key_reused',
        message: /^Cannot [a-z ]+ because its idempotency key was already used with different content$/,
      })
    }
    assert.deepEqual(await host.everything(), everything)
  })
}

function testBadKey(newHost: NewHost, call: CallUnderTest): void {
  test(`${call.name} rejects a malformed key without showing any part of it`, async () => {
    const host = await newHost()
    const given = await about(host, call)
    const everything = await host.everything()
    const odd = [
      '',
      'se cret',
      'secrét',
      'secret\n',
      'secret\0',
      'secret'.repeat(40),
      17171717,
      null,
      ['secret'],
    ]
    for (const idempotencyKey of [...odd, { secret: 1 }, true]) {
      await assert.rejects(invoke(host, call, { ...given, idempotencyKey }), (error: Error) => {
        assert.equal(Reflect.get(error, 'code'), 'invalid_input')
        assert.match(
          error.message,
          /^Cannot [a-z ]+ because idempotencyKey must be 1 to 200 visible ASCII characters$/,
        )
        return true
      })
    }
    assert.deepEqual(await host.everything(), everything)
    await invoke(host, call, { ...given, idempotencyKey: '~'.repeat(200) })
  })
}

function testRefused(newHost: NewHost): void {
  test('the key of a rejected call can be used again: it succeeds once the call is allowed', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    const { id: invoiceId } = await createInvoice(host)
    const payment = { invoiceId, amount: '1250', idempotencyKey: KEY }
    const { recordPayment } = platform.invoices
    await assert.rejects(recordPayment(organizationId, payment), { code: 'invalid_state' })
    await platform.invoices.issue(organizationId, { invoiceId })
    await assert.rejects(recordPayment(organizationId, { ...payment, amount: '1251' }), {
      code: 'overpayment',
    })
    await assert.rejects(recordPayment(organizationId, { ...payment, amount: '1.0001' }), {
      code: 'invalid_input',
    })
    await assert.rejects(recordPayment(organizationId, { ...payment, invoiceId: 'inv' }), {
      code: 'not_found',
    })
    assert.equal((await recordPayment(organizationId, payment)).invoice.status, 'paid')
    assert.equal((await recordPayment(organizationId, payment)).invoice.status, 'paid')
  })

  test('the key of a creation whose number was taken can be used again', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    await createInvoice(host, { number: 'A' })
    const attempt = createInvoice(host, { number: 'A', idempotencyKey: KEY })
    await assert.rejects(attempt, { code: 'already_exists' })
    const made = await createInvoice(host, { number: 'B', idempotencyKey: KEY })
    assert.deepEqual(await createInvoice(host, { number: 'B', idempotencyKey: KEY }), made)
    await assert.rejects(platform.leads.create(organizationId, { businessId: 'biz', idempotencyKey: KEY }), {
      code: 'not_found',
    })
    const business = await platform.businesses.create(organizationId, { name: 'Atlas' })
    await platform.leads.create(organizationId, { businessId: business.id, idempotencyKey: KEY })
  })
}

function testScope(newHost: NewHost): void {
  test('a key can be used for every call, and separately in another organization', async () => {
    const host = await newHost()
    const other = { ...host, organizationId: `${host.organizationId}_other` }
    for (const one of [host, other]) {
      for (const call of CALLS) {
        const given = { ...(await about(one, call)), idempotencyKey: KEY }
        await invoke(one, call, given)
      }
    }
  })

  test('a replay returns the record of the first call with the same number', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    const made = await createInvoice(host, { idempotencyKey: KEY })
    const issued = await platform.invoices.issue(organizationId, { invoiceId: made.id, idempotencyKey: KEY })
    await platform.invoices.recordPayment(organizationId, { invoiceId: made.id, amount: '1250' })
    assert.equal(made.number, 'INV-2020-0001')
    assert.deepEqual(await createInvoice(host, { idempotencyKey: KEY }), made)
    const replay = platform.invoices.issue(organizationId, { invoiceId: made.id, idempotencyKey: KEY })
    assert.deepEqual(await replay, issued)
  })
}

function testMoments(newHost: NewHost): void {
  test("defaults that depend on the current time don't make a retry a different call", async () => {
    let now = Date.UTC(2026, 11, 31, 23, 59, 59)
    const host = await newHost({ clock: () => now })
    const { organizationId, platform } = host
    const { id: proposalId } = await proposalIn(host, 'sent')
    const { id: invoiceId } = await invoiceIn(host, 'issued')
    const calls = [
      () =>
        platform.invoices.create(organizationId, {
          currency: 'EUR',
          total: '1',
          dueDate: '2099-01-01T00:00:00Z',
          idempotencyKey: KEY,
        }),
      () => platform.invoices.recordPayment(organizationId, { invoiceId, amount: '1', idempotencyKey: KEY }),
      () => platform.proposals.accept(organizationId, { proposalId, signedBy: 'Amina', idempotencyKey: KEY }),
      () =>
        platform.proposals.create(organizationId, {
          title: 'Website',
          currency: 'EUR',
          total: 1,
          idempotencyKey: KEY,
        }),
      () => platform.clients.create(organizationId, { name: 'Atlas', idempotencyKey: KEY }),
    ]
    const first = await Promise.all(calls.map((make) => make()))
    now += 60_000
    const everything = await host.everything()
    for (const [index, make] of calls.entries()) assert.deepEqual(await make(), first[index])
    assert.deepEqual(await host.everything(), everything)
  })

  test('a time is the same content in any form', async () => {
    const host = await newHost()
    const made = await createInvoice(host, { idempotencyKey: KEY })
    for (const dueDate of [
      new Date('2020-01-31T00:00:00Z'),
      '2020-01-31T01:00+01:00',
      '2020-01-30T23:00:00.000-01:00',
    ]) {
      assert.deepEqual(await createInvoice(host, { dueDate, idempotencyKey: KEY }), made)
    }
  })
}

// --- Concurrent calls ---

const opened = openPostgres()

for (const call of CALLS) {
  test(`${call.name} ten times at once with one key in two processes returns the same record and happens once`, async () => {
    const host = await opened.newHost()
    const platforms = [host.platform, createPlatform(opened.secondStore())]
    const given = { ...(await about(host, call)), idempotencyKey: KEY }
    const before = (await host.events()).length
    const records = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        invoke({ ...host, platform: platforms[index % 2] ?? host.platform }, call, given),
      ),
    )
    for (const record of records) assert.deepEqual(record, records[0])
    assert.deepEqual((await typesOf(host)).slice(before), call.events)
  })
}
