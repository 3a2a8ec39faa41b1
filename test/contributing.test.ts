import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
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

/** Names of which every file of the library and its pages belongs to the list of the change: what has the name needs the next such name. */
const MODELS = { 'A field of a resource': /\bphone\b/, 'A listed resource': /\bprojects\b/ }
const GENERATED = ['lib/postgres/schema/fingerprint.ts']

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

  for (const [change, model] of Object.entries(MODELS)) {
    test(`of "${change}" are every file of the library with ${model}`, async () => {
      const [, list = ''] = page.split(`**${change}**`)
      const listed = [...(list.split(/^\*\*/m)[0] ?? '').matchAll(/^- `([^`]+)`/gm)].map(([, path]) => path)
      const found = ['README.md']
      for (const folder of ['lib', 'sql']) {
        for (const name of await readdir(join(ROOT, folder), { recursive: true }))
          found.push(`${folder}/${name}`)
      }
      const missing: string[] = []
      for (const path of found.filter((name) => /\.(ts|sql|md)$/.test(name) && !GENERATED.includes(name))) {
        const isModelled = model.test(await readFile(join(ROOT, path), 'utf8'))
        if (isModelled && !listed.includes(path)) missing.push(path)
      }
      assert.deepEqual(missing, [])
    })
  }
})
