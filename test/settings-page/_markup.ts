import assert from 'node:assert/strict'

const VOID = new Set(['meta', 'link', 'input', 'img', 'br', 'wbr'])

/**
 * Checks that a document is well formed, has nothing inline, labels every control, and repeats no id. A pattern reads the tags:
 * enough for markup from a single template.
 */
export function checkMarkup(text: string, where: string): void {
  const open: string[] = []
  const ids = new Set<string>()
  const labelled = new Set([...text.matchAll(/<label for="([^"]*)"/g)].map(([, id]) => id))
  for (const [whole, closing, name = '', rest = ''] of text.matchAll(
    /<(\/?)([a-z][a-z0-9]*)((?:\s+[a-z-]+(?:="[^"]*")?)*)\s*\/?>/gi,
  )) {
    if (closing) {
      assert.equal(open.pop(), name, `${where}: </${name}> closes what is not open`)
      continue
    }
    assert.doesNotMatch(rest.replace(/"[^"]*"/g, '""'), /\s(style|on[a-z]+)=/i, `${where}: ${whole}`)
    const id = /\sid="([^"]*)"/.exec(rest)?.[1]
    if (id !== undefined) {
      assert.ok(!ids.has(id), `${where}: id ${id} twice`)
      ids.add(id)
    }
    const isControl =
      (name === 'input' && !rest.includes('type="hidden"')) || name === 'select' || name === 'textarea'
    if (isControl) {
      const hasLabel = open.includes('label') || labelled.has(id ?? '') || rest.includes('aria-label="')
      assert.ok(hasLabel, `${where}: ${whole} has no label`)
    }
    if (!VOID.has(name) && !whole.endsWith('/>')) open.push(name)
  }
  assert.deepEqual(open, [], where)
  // Every < is the beginning of a tag that was seen above, or of the document type.
  const tags = text
    .replace(/<!doctype html>/, '')
    .replace(/<\/?[a-z][a-z0-9]*(?:\s+[a-z-]+(?:="[^"<]*")?)*\s*\/?>/gi, '')
  assert.doesNotMatch(tags, /</, `${where}: a stray <`)
  assert.doesNotMatch(text, /<script(?![^>]*\ssrc=)/, `${where}: an inline script`)
  assert.doesNotMatch(text, /<style/, where)
  for (const [, references = ''] of text.matchAll(/aria-(?:describedby|labelledby)="([^"]*)"/g)) {
    for (const id of references.split(' ')) assert.ok(ids.has(id), `${where}: no element ${id}`)
  }
  for (const [, id = ''] of text.matchAll(/href="#([^"]*)"/g))
    assert.ok(ids.has(id), `${where}: no element ${id}`)
}
