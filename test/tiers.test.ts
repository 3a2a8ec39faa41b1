import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'

// README.md in this folder describes the tiers.

const FILES = (await readdir(import.meta.dirname, { recursive: true })).filter(
  (file) => file.endsWith('.ts') && !/node_modules|^bench\/|^openapi\/tools\/|\.pages-/.test(file),
)

test('every file of tests names a tier, and no helper does', async () => {
  for (const file of FILES) {
    const isTest = /\.(test|more|slow)\.ts$/.test(file)
    const text = await readFile(join(import.meta.dirname, file), 'utf8')
    assert.ok(!isTest || !/(^|\/)_/.test(file), `${file} is a helper by its name, and in a tier`)
    assert.ok(isTest || !/^(test|describe)\(/m.test(text), `${file} has tests, and is in no tier`)
  }
})

test('the slow tier is listed with what each file needs', async () => {
  const readme = await readFile(join(import.meta.dirname, 'README.md'), 'utf8')
  const [, list = ''] = /^### The slow tier$(.*?)^## /ms.exec(readme) ?? []
  const listed = [...list.matchAll(/^\| (`[^|]*)/gm)].flatMap(([, names = '']) =>
    [...names.matchAll(/`([^`]*)`/g)].map(([, name = '']) => name),
  )
  const slow = FILES.filter((file) => file.endsWith('.slow.ts')).map((file) => file.replace('.slow.ts', ''))
  const covers = (name: string, file: string) =>
    name.endsWith('/*') ? file.startsWith(name.slice(0, -1)) : file === name
  assert.deepEqual(
    slow.filter((file) => !listed.some((name) => covers(name, file))),
    [],
    'are not listed',
  )
  assert.deepEqual(
    listed.filter((name) => !slow.some((file) => covers(name, file))),
    [],
    'are listed, and are not there',
  )
})
