import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'

// CONTRIBUTING.md leads through ten changes by lists of their places: files, and the names in them. A list that names what has gone
// leads a newcomer nowhere.

const ROOT = join(import.meta.dirname, '..')
const page = await readFile(join(ROOT, '.github', 'CONTRIBUTING.md'), 'utf8')
const places = [...page.matchAll(/^- `([^`]+)`: (.+)$/gm)].map(([, path = '', rest = '']) => {
  const named = rest.replaceAll(/\([^)]*\)/g, '')
  return { path, names: [...named.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name) }
})

describe('The places of the ten changes in CONTRIBUTING.md', () => {
  test('are of ten changes', () => {
    assert.equal([...page.matchAll(/^\*\*(An?|Jitter) /gm)].length, 10)
    assert.ok(places.length > 50)
  })

  for (const { path, names } of places) {
    test(`${path} has ${names.join(', ')}`, async () => {
      const text = await readFile(join(ROOT, path), 'utf8')
      assert.notEqual(names.length, 0)
      assert.deepEqual(
        names.filter((name) => !text.includes(name)),
        [],
      )
    })
  }
})
