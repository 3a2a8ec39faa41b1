import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { isNode, type Node, openapi, operation, response } from '../openapi/_document.ts'
import { type Platform, request, startPlatform } from './_api.ts'

let platform: Platform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.close())

// --- Compares examples of create operations with real responses ---

describe('examples of creations', () => {
  test('POST responses and creation events match those of the API field by field', async () => {
    const { id, key } = await platform.organization()
    const client = await create('/api/v1/clients', key, {})
    assert.deepEqual(client.real, client.example)
    const { business } = dataOf(client.answer)
    assert.ok(isNode(business))
    const lead = await create('/api/v1/leads', key, { businessId: business.id })
    assert.deepEqual(lead.real, lead.example)
    const stored = await platform.sql<{ body: string }[]>`
      select body from business_api.events where organization_id = ${id} order by id
    `
    const events = stored.map(({ body }): Node => JSON.parse(body))
    assert.deepEqual(
      events.map(({ type }) => type),
      ['business.created', 'client.created', 'lead.created'],
    )
    for (const event of events) assert.deepEqual(alike(event), alike(eventExample(String(event.type))))
  })
})

/** Sends the example of an input. Returns the comparable parts of the real response and the one in the document. */
async function create(path: string, key: string, known: object) {
  const posted = operation('post', path)
  const { example: input } = posted.requestBody?.content['application/json'] ?? {}
  const { status, text } = await request(platform.api, path, { key, json: { ...Object(input), ...known } })
  assert.equal(status, 200, text)
  const answer: unknown = JSON.parse(text)
  const { example } = response(posted, '200').content?.['application/json'] ?? {}
  return { answer, real: alike(answer), example: alike(example) }
}

function dataOf(answer: unknown): Node {
  assert.ok(isNode(answer) && isNode(answer.data))
  return answer.data
}

/** Replaces ids and timestamps, which always differ. */
function alike(value: unknown): unknown {
  const text = JSON.stringify(value)
    .replace(/"([a-z]+)_[0-9A-HJKMNP-TV-Z]{26}"/g, '"$1_"')
    .replace(/"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"/g, '"moment"')
  return JSON.parse(text)
}

// --- Checks that all examples are consistent ---

describe('examples of events', () => {
  for (const type of Object.keys(openapi.webhooks)) {
    test(`the record in ${type}, if any, matches the fields next to it`, () => {
      const data = dataOf(eventExample(type))
      for (const record of Object.values(data).filter(isNode)) {
        for (const [name, value] of Object.entries(record)) {
          if (name in data) assert.equal(data[name], value, name)
        }
      }
    })
  }

  test('a new proposal is a draft with version 1', () => {
    const { status, version } = dataOf(eventExample('proposal.created'))
    assert.deepEqual([status, version], ['draft', 1])
  })

  test('amounts add up and timestamps are in order', () => {
    const [invoice] = Object(response(operation('get', '/api/v1/invoices'), '200').content)[
      'application/json'
    ].example.data
    const payment = dataOf(eventExample('payment.received'))
    for (const { total = invoice.total, amountPaid, amountDue } of [invoice, payment]) {
      assert.equal(Number(total), Number(amountPaid) + Number(amountDue))
    }
    assert.equal(payment.amount, payment.amountPaid)
    assert.ok(invoice.issueDate < invoice.dueDate)
    const overdue = eventExample('invoice.overdue')
    assert.ok(String(dataOf(overdue).dueDate) < String(overdue.createdAt))
    const issued = eventExample('invoice.issued')
    assert.ok(String(dataOf(issued).dueDate) > String(issued.createdAt))
    const { startedAt, completedAt } = dataOf(eventExample('marketing.provider_sync_completed'))
    assert.ok(String(startedAt) < String(completedAt))
  })

  test('all ids of a kind are the same', () => {
    const ids = JSON.stringify(openapi).match(/\b(?:biz|cli|lead|inv|pay|prop|proj|evt|req)_[0-9A-Z]{26}\b/g)
    assert.ok(ids && ids.length > 100)
    const kinds = new Set(ids.map((id) => id.split('_')[0]))
    assert.equal(new Set(ids).size, kinds.size)
  })
})

function eventExample(type: string): Node {
  const { example } = openapi.webhooks[type]?.post.requestBody?.content['application/json'] ?? {}
  assert.ok(isNode(example), `${type} has no example`)
  return example
}
