import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toMarkup } from '../../lib/settings-page/html.ts'
import { pretty } from '../../lib/settings-page/screens/attempt.ts'
import { prose } from '../../lib/settings-page/views/prose.ts'

test('a table of the OpenAPI document becomes a table, captioned by its heading, with code and escaped text', () => {
  const text = toMarkup(
    prose('## Errors\n\nText.\n\n| status | meaning |\n| --- | --- |\n| `400` | <not> JSON |'),
  )
  assert.match(text, /<h2>Errors<\/h2>/)
  assert.match(text, /<caption>Errors<\/caption>/)
  assert.match(text, /<th scope="col">status<\/th><th scope="col">meaning<\/th>/)
  assert.match(text, /<th scope="row"><code>400<\/code><\/th><td[^>]*>&lt;not&gt; JSON<\/td>/)
  assert.doesNotMatch(text, /---|\|/)
})

test('a formatted body has the numbers and texts that were sent, and any other text stays as it is', () => {
  const value = { a: [], b: [{}, [1, 'a: {"[,\\"'], null], c: { d: true, ü: '', e: -1.5 } }
  for (const indent of [0, 2, '\t'])
    assert.equal(pretty(JSON.stringify(value, null, indent)), JSON.stringify(value, null, 2))
  assert.equal(
    pretty('{"id":9007199254740993,"total": 1250.000,"max":1e400,"zero":-0, "list":[ ]}'),
    '{\n  "id": 9007199254740993,\n  "total": 1250.000,\n  "max": 1e400,\n  "zero": -0,\n  "list": []\n}',
  )
  for (const text of ['', 'ok', '{"a":1', '[1,]']) assert.equal(pretty(text), text)
  const deep = '['.repeat(10_000) + ']'.repeat(10_000)
  assert.ok(pretty(deep).length < 1_000_000)
  assert.equal(pretty(deep).replaceAll(/\s/g, ''), deep)
})
