import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
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
