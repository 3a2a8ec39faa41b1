// Embeds the files in sql/ in the built package by replacing the module that reads them (migration-texts.ts). This is
// plain JavaScript so that tsc leaves it out of the package.
//
//   node lib/postgres/schema/embed-migrations.mjs [DIRECTORY]     default dist

import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const MIGRATIONS = join(ROOT, 'sql', 'migrations')
const [directory = join(ROOT, 'dist')] = process.argv.slice(2)

async function readSqlFiles(folder) {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), 'utf8')]))
}

// Must match `readMigrationTexts()` in migration-texts.ts, which a test checks.
const definition = await readSqlFiles(join(ROOT, 'sql'))
const later = existsSync(MIGRATIONS) ? await readSqlFiles(MIGRATIONS) : []
const texts = {
  '0001-baseline.sql': definition.map(([, text]) => text).join('\n'),
  ...Object.fromEntries(later),
}
const entries = Object.entries(texts).map(
  ([name, text]) => `  ${JSON.stringify(name)}: ${JSON.stringify(text)},\n`,
)
const source = `// The files of sql/ as they were when the package was built.
const TEXTS = {
${entries.join('')}}

export function readMigrationTexts() {
  return TEXTS
}
`

const file = join(directory, 'postgres/schema/migration-texts.js')
await mkdir(dirname(file), { recursive: true })
await writeFile(file, source)
// The source map belongs to the replaced module.
await rm(`${file}.map`, { force: true })
