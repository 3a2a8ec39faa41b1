import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { BASELINE, readDefinition, readMigrationTexts } from '../../lib/postgres/schema/migration-texts.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..', '..')
const EMBED = join(ROOT, 'lib/postgres/schema/embed-migrations.mjs')

test('the sources have the definition as the baseline, and the migrations in sql/migrations/, byte for byte', async () => {
  const files = (await readdir(join(ROOT, 'sql'))).filter((name) => name.endsWith('.sql')).sort()
  assert.ok(files.length > 0)
  assert.deepEqual(Object.keys(readDefinition()), files)
  const texts = await Promise.all(files.map((file) => readFile(join(ROOT, 'sql', file), 'utf8')))
  const later = (await readdir(join(ROOT, 'sql/migrations'))).filter((name) => name.endsWith('.sql')).sort()
  const { [BASELINE]: baseline, ...migrations } = readMigrationTexts()
  // The baseline is frozen by a release.
  if (!later.includes(BASELINE)) assert.equal(baseline, texts.join('\n'))
  assert.deepEqual(
    Object.keys(migrations),
    later.filter((name) => name !== BASELINE),
  )
})

test('the migrations in sql/migrations/ follow the baseline in the order of their numbers', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'business-api-sql-'))
  t.after(() => rm(directory, { recursive: true }))
  await mkdir(join(directory, 'migrations'))
  await writeFile(join(directory, '20-b.sql'), 'b')
  await writeFile(join(directory, '10-a.sql'), 'a')
  await writeFile(join(directory, 'migrations/0003-d.sql'), 'd')
  await writeFile(join(directory, 'migrations/0002-c.sql'), 'c')
  await writeFile(join(directory, 'migrations/README.md'), 'no migration')
  const texts = readMigrationTexts(directory)
  assert.deepEqual(Object.entries(texts), [
    [BASELINE, 'a\nb'],
    ['0002-c.sql', 'c'],
    ['0003-d.sql', 'd'],
  ])
})

test("a build has the same migrations in a module that doesn't read files", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'business-api-embed-'))
  t.after(() => rm(directory, { recursive: true }))
  await writeFile(join(directory, 'package.json'), '{"type":"module"}')
  await run(process.execPath, [EMBED, directory])
  const file = join(directory, 'postgres/schema/migration-texts.js')
  assert.doesNotMatch(await readFile(file, 'utf8'), /^import |import\.meta|require\(/m)
  const built: { readMigrationTexts: typeof readMigrationTexts } = await import(pathToFileURL(file).href)
  assert.deepEqual(built.readMigrationTexts(), readMigrationTexts())
})

describe('the package’s migrations after the baseline', () => {
  for (const [name, text] of Object.entries(readMigrationTexts()).slice(1)) {
    test(`${name} lists its locks`, () => {
      const [, locks = ''] = /^-- Locks: (.+)$/m.exec(text) ?? []
      assert.notEqual(locks, '', 'a line "-- Locks: …" is missing')
      const made = [...text.matchAll(/^create (?:unlogged )?table (business_api\.\w+)/gm)].map(
        ([, table]) => table,
      )
      const used = [...text.matchAll(/\b(?:references|alter table|index \w+\s+on) (business_api\.\w+)/g)].map(
        ([, table = '']) => table,
      )
      for (const table of used.filter((table) => !made.includes(table))) {
        assert.ok(locks.includes(table), `the line does not name ${table}`)
      }
    })
  }
})
