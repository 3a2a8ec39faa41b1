import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toMarkup } from '../../lib/settings-page/html.ts'
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
