import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CALLS, type CallUnderTest, call as callByName, invoke } from './_calls.ts'
import { describeOnEveryStore, type NewHost } from './_platform.ts'
import { createInvoice } from './_records.ts'
import {
  isRequired,
  MOMENTS,
  MORE_FIELDS,
  ORGANIZATIONS,
  requirementOf,
  SECRET,
  valuesOf,
} from './_wrong-inputs.ts'

// Mistakes in the host's code always cause an error with a code that names the field, contains no value,
// and changes nothing.

describeOnEveryStore((newHost) => {
  for (const call of CALLS) {
    testFields(newHost, call)
    testShapes(newHost, call)
  }
  testOverdue(newHost)
  testMoney(newHost)
  testDates(newHost)
  testAccepted(newHost)
})

async function assertInvalid(attempt: Promise<unknown>, field: string, requirement: RegExp, value: unknown) {
  await assert.rejects(
    attempt,
    (error: Error) => {
      assert.deepEqual([error.name, Reflect.get(error, 'code')], ['BusinessApiError', 'invalid_input'])
      const [, said = ''] = new RegExp(`^Cannot [a-z ]+ because ${field} (.*)$`).exec(error.message) ?? []
      assert.match(said, requirement, error.message)
      assert.doesNotMatch(error.message, /whsec_|17171717|object Object/)
      return true
    },
    `${field}: ${String(typeof value === 'object' ? JSON.stringify(value) : String(value)).slice(0, 50)}`,
  )
}

function testFields(newHost: NewHost, call: CallUnderTest): void {
  const { name, idField } = call
  const fields = [...Object.keys(call.fields), ...(MORE_FIELDS[name] ?? []), ...(idField ? [idField] : [])]
  test(`${name} rejects a wrong ${fields.join(', ')} by name without showing the value`, async () => {
    const host = await newHost()
    const given = idField === undefined ? {} : { [idField]: await call.make(host) }
    const everything = await host.everything()
    for (const field of fields) {
      const requirement = requirementOf(call, field)?.[0]
      assert.ok(requirement, `the test knows ${field}`)
      for (const value of valuesOf(call, field)) {
        await assertInvalid(invoke(host, call, { ...given, [field]: value }), field, requirement, value)
      }
    }
    assert.deepEqual(await host.everything(), everything)
  })
}

function testShapes(newHost: NewHost, call: CallUnderTest): void {
  const { name, fields, idField } = call
  const required = [
    ...(idField === undefined ? [] : [idField]),
    ...Object.keys(fields).filter(isRequired(name)),
  ]

  test(`${name} names every missing field for any value that isn't an object`, async () => {
    const host = await newHost()
    const everything = await host.everything()
    for (const odd of [
      undefined,
      null,
      SECRET,
      17_171_717,
      true,
      [],
      [SECRET],
      new Date(),
      () => SECRET,
      new Map(),
    ]) {
      const attempt = callByName(host.platform, name, host.organizationId, odd)
      if (required.length === 0) continue
      await assert.rejects(attempt, (error: Error) => {
        assert.equal(Reflect.get(error, 'code'), 'invalid_input')
        for (const field of required) assert.match(error.message, new RegExp(`\\b${field} must be`))
        assert.doesNotMatch(error.message, /whsec_|17171717/)
        return true
      })
    }
    for (const organizationId of ORGANIZATIONS) {
      const attempt = callByName(host.platform, name, organizationId, {
        ...fields,
        ...(idField && { [idField]: 'x' }),
      })
      const requirement = /^must (be a string of 1 to 64 characters|not contain NUL or a lone surrogate)$/
      await assertInvalid(attempt, 'organizationId', requirement, organizationId)
    }
    assert.deepEqual(await host.everything(), everything)
  })

  test(`${name} rejects unknown own properties and pollutes nothing`, async () => {
    const host = await newHost()
    const id = await call.make(host)
    const text = JSON.stringify({ ...fields, ...(idField && { [idField]: id }), idempotencyKey: 'key' })
    const more = '"__proto__":{"polluted":true,"status":"void"},"constructor":{"prototype":{"polluted":true}}'
    const everything = await host.everything()
    for (const odd of [more, '"isRevision":false', '"idempotencykey":"key"', `"${SECRET}":1`]) {
      const given = JSON.parse(`${text.slice(0, -1)},${odd}}`)
      await assert.rejects(callByName(host.platform, name, host.organizationId, given), (error: Error) => {
        assert.equal(Reflect.get(error, 'code'), 'invalid_input')
        assert.match(error.message, / is unknown/)
        assert.equal(error.message.includes(SECRET), false)
        return true
      })
    }
    assert.equal(Reflect.get({}, 'polluted'), undefined)
    assert.deepEqual(await host.everything(), everything)
    // Inherited properties aren't read, so an object with inherited fields is rejected.
    const inherited = Object.assign(Object.create({ polluted: true }), JSON.parse(text))
    const attempt = callByName(host.platform, name, host.organizationId, inherited)
    await assert.rejects(attempt, { code: 'invalid_input' })
    await callByName(host.platform, name, host.organizationId, JSON.parse(text))
  })
}

function testOverdue(newHost: NewHost): void {
  test('invoices.markOverdue rejects a wrong time or limit, and requires neither', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    for (const asOf of MOMENTS) {
      const attempt = callByName(platform, 'invoices.markOverdue', organizationId, { asOf })
      await assertInvalid(attempt, 'asOf', /^must be a Date, or ISO 8601/, asOf)
    }
    for (const limit of [
      null,
      '5',
      0,
      -1,
      1.5,
      1001,
      Number.NaN,
      Number.POSITIVE_INFINITY,
      [5],
      5n,
      SECRET,
    ]) {
      const attempt = callByName(platform, 'invoices.markOverdue', organizationId, { limit })
      await assertInvalid(attempt, 'limit', /^must be a whole number from 1 to 1000$/, limit)
    }
    await assert.rejects(callByName(platform, 'invoices.markOverdue', organizationId, null), {
      code: 'invalid_input',
    })
    for (const given of [[], [undefined], [{}], [{ limit: 1000 }]]) {
      assert.deepEqual(await callByName(platform, 'invoices.markOverdue', organizationId, ...given), [])
    }
  })
}

// --- Money and times ---

function testMoney(newHost: NewHost): void {
  test('money with more decimals than its currency is rejected, and nothing is changed', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    const { id: proposalId } = await platform.proposals.create(organizationId, {
      title: 'Website',
      currency: 'EUR',
      total: 10.25,
    })
    const everything = await host.everything()
    const finer: [attempt: () => Promise<unknown>, message: RegExp][] = []
    for (const [currency, total] of [
      ['JPY', '900.5'],
      ['EUR', '0.001'],
      ['TND', '0.0001'],
      ['CLF', '0.00001'],
    ] as const) {
      finer.push([
        () => createInvoice(host, { currency, total }),
        /total can have at most \d decimals for [A-Z]{3}/,
      ])
    }
    const proposal = { title: 'Website', currency: 'EUR', total: 1 }
    const { proposals } = platform
    for (const price of [{ total: 1.005 }, { monthlyTotal: 0.001 }, { currency: 'JPY', total: 1.5 }]) {
      finer.push([
        () => proposals.create(organizationId, { ...proposal, ...price }),
        /price has more decimals than its currency/,
      ])
      finer.push([
        () => proposals.revise(organizationId, { proposalId, ...price }),
        /price has more decimals than its currency/,
      ])
    }
    finer.push([
      () => proposals.revise(organizationId, { proposalId, currency: 'JPY' }),
      /price has more decimals than its currency/,
    ])
    for (const [attempt, message] of finer) await assert.rejects(attempt, { code: 'invalid_input', message })
    assert.deepEqual(await host.everything(), everything)
  })
}

function testDates(newHost: NewHost): void {
  const message = /^Cannot (create|issue) the invoice because its dueDate must not be before its issueDate$/

  test('invoices.create rejects a due date before the issue date, even if that is the default', async () => {
    const host = await newHost({ clock: () => Date.UTC(2026, 0, 2) })
    const { organizationId, platform } = host
    const invoice = { currency: 'EUR', total: '1', dueDate: '2026-01-01T23:59:59.999Z' }
    for (const issueDate of [undefined, '2026-01-02T00:00:00Z', '2026-01-01T23:59:59.999-00:01']) {
      const attempt = platform.invoices.create(organizationId, { ...invoice, issueDate })
      await assert.rejects(attempt, { code: 'invalid_input', message })
    }
    await platform.invoices.create(organizationId, { ...invoice, issueDate: invoice.dueDate })
    assert.equal((await host.list('invoices')).length, 1)
  })

  test("invoices.issue rejects a due date before the issue date, whether it was given or is the draft's", async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    // Issued on 1 January 2020, due on the 31st.
    const { id: invoiceId } = await createInvoice(host)
    const everything = await host.everything()
    for (const dates of [
      { issueDate: '2020-01-31T00:00:00.001Z' },
      { dueDate: '2019-12-31T23:59:59.999Z' },
      { issueDate: '2020-03-01T00:00:00Z', dueDate: '2020-02-29T00:00:00Z' },
    ]) {
      const attempt = platform.invoices.issue(organizationId, { invoiceId, ...dates })
      await assert.rejects(attempt, { code: 'invalid_input', message })
    }
    assert.deepEqual(await host.everything(), everything)
    const dates = { issueDate: '2020-03-01T00:00:00.000Z', dueDate: '2020-03-01T00:00:00.000Z' }
    const issued = await platform.invoices.issue(organizationId, { invoiceId, ...dates })
    assert.deepEqual([issued.issueDate, issued.dueDate], [dates.issueDate, dates.dueDate])
  })
}

// --- Unusual but valid inputs ---

function testAccepted(newHost: NewHost): void {
  test('strings are kept unchanged and counted in characters', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    const odd = 'O\'Brien & "Söhne" \\ \u0001\u2028\ufeff 🏺; drop table --'
    const title = '🏺'.repeat(200)
    const proposal = await platform.proposals.create(organizationId, {
      title,
      currency: 'EUR',
      total: 1,
      number: odd,
    })
    assert.deepEqual([proposal.title, proposal.number], [title, odd])
    const project = await platform.projects.create(organizationId, {
      name: odd,
      billingType: 'hourly',
      value: 0,
    })
    await platform.projects.complete(organizationId, { projectId: project.id })
    await platform.proposals.send(organizationId, { proposalId: proposal.id })
    const business = { name: odd, category: '', city: odd, phone: '' }
    const client = await platform.clients.create(organizationId, business)
    assert.deepEqual(await host.list('clients'), [client])
    const data = (await host.events()).map((event) => event.data)
    assert.deepEqual(data.at(1), { projectId: project.id, name: odd })
    assert.deepEqual(data.at(2)?.proposal, { ...proposal, status: 'sent' })
    assert.deepEqual(data.at(4)?.client, client)
  })

  test('there is no negative zero, and no number loses precision', async () => {
    const host = await newHost()
    const { organizationId, platform } = host
    const project = { name: 'Relaunch', billingType: 'retainer' } as const
    for (const value of [-0, 0.001, 999_999_999_999.999, 1e-3, 123_456_789_012.345]) {
      const { value: kept } = await platform.projects.create(organizationId, { ...project, value })
      assert.ok(Object.is(kept, value + 0))
      assert.ok(Object.is((await host.list('projects'))[0]?.value, value + 0))
    }
  })

  test('times are returned in UTC with milliseconds, whatever form they were given in', async () => {
    const host = await newHost()
    const expected = '2026-03-29T01:30:00.000Z'
    for (const dueDate of [
      new Date(expected),
      '2026-03-29T01:30Z',
      '2026-03-29T03:30:00+02:00',
      '2026-03-28T20:00:00.000000001-05:30',
    ]) {
      assert.equal((await createInvoice(host, { dueDate })).dueDate, expected)
    }
    for (const dueDate of ['1970-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z', '2024-02-29T23:59:59Z']) {
      const invoice = await createInvoice(host, { dueDate, issueDate: '1970-01-01T00:00:00Z' })
      assert.equal(invoice.dueDate, new Date(dueDate).toISOString())
      assert.match(invoice.number, /^INV-1970-/)
    }
  })

  test('an invoice is numbered by the year of its issue date in UTC', async () => {
    const host = await newHost()
    const dueDate = '2099-01-01T00:00:00Z'
    const numbers: [Date | string, string][] = [
      ['2026-12-31T23:59:59.999Z', 'INV-2026-0001'],
      ['2026-12-31T23:59:59-01:00', 'INV-2027-0001'],
      ['2027-01-01T00:30:00+01:00', 'INV-2026-0002'],
      [new Date(Date.UTC(2027, 0, 1)), 'INV-2027-0002'],
    ]
    for (const [issueDate, number] of numbers) {
      assert.equal((await createInvoice(host, { issueDate, dueDate })).number, number)
    }
  })
}
