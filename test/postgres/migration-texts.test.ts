import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { readMigrationTexts } from '../../lib/postgres/schema/migration-texts.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..', '..')
const EMBED = join(ROOT, 'lib/postgres/schema/embed-migrations.mjs')

test('the sources have the migrations of sql/, byte for byte', async () => {
  const texts = readMigrationTexts()
  const files = (await readdir(join(ROOT, 'sql'))).sort()
  assert.ok(files.length > 0)
  assert.deepEqual(Object.keys(texts).sort(), files)
  for (const file of files) assert.equal(texts[file], await readFile(join(ROOT, 'sql', file), 'utf8'))
})

test('a build holds the same migrations in a module that reads no file', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'business-api-embed-'))
  t.after(() => rm(directory, { recursive: true }))
  await writeFile(join(directory, 'package.json'), '{"type":"module"}')
  await run(process.execPath, [EMBED, directory])
  const file = join(directory, 'postgres/schema/migration-texts.js')
  assert.doesNotMatch(await readFile(file, 'utf8'), /^import |import\.meta|require\(/m)
  const built: { readMigrationTexts: typeof readMigrationTexts } = await import(pathToFileURL(file).href)
  assert.deepEqual(built.readMigrationTexts(), readMigrationTexts())
})

describe('the migrations of the package', () => {
  const texts = Object.entries(readMigrationTexts())

  for (const [name, text] of texts) {
    test(`${name} states its locks`, () => {
      const [, locks = ''] = /^-- Locks: (.+)$/m.exec(text) ?? []
      assert.notEqual(locks, '', 'a line "-- Locks: …" is missing')
      const made = [...text.matchAll(/^create (?:unlogged )?table (business_api\.\w+)/gm)].map(
        ([, table]) => table,
      )
      const used = [
        ...text.matchAll(
          /\b(?:references|alter table|index (?:concurrently )?\w+\s+on) (business_api\.\w+)/g,
        ),
      ].map(([, table = '']) => table)
      for (const table of used.filter((table) => !made.includes(table))) {
        assert.ok(locks.includes(table), `the line does not name ${table}`)
      }
    })
  }
})
