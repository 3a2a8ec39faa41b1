import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as v from 'valibot'
import { EVENT_TYPES, eventSchemas } from '../../lib/resources/event-catalogue.ts'
import { exampleData } from '../../lib/resources/example-data.ts'

for (const type of EVENT_TYPES) {
  test(`exampleData() of ${type} matches the schema and has all fields`, () => {
    const data = exampleData(type)
    assert.deepEqual(v.parse(eventSchemas[type], data), data)
    assert.deepEqual(Object.keys(data ?? {}), Object.keys(eventSchemas[type].entries))
    // A null isn't very useful to a subscriber, so it's only allowed if the API always sends it.
    if (type !== 'lead.created') assert.equal(JSON.stringify(data).includes('null'), false)
  })
}

test('exampleData() consists of the examples in the documentation', () => {
  assert.deepEqual(exampleData('marketing.campaign_failed'), {
    campaignId: 'cmp_spring',
    name: 'Spring offer',
    status: 'failed',
    reason: 'The provider refused the budget.',
  })
})
