// Writes the texts of sql/ into the built package, in place of the module that reads them (migration-texts.ts). Plain
// JavaScript, so that tsc leaves it out of the package.
//
//   node lib/postgres/schema/embed-migrations.mjs [DIRECTORY]     default dist

import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const [directory = join(ROOT, 'dist')] = process.argv.slice(2)

const names = (await readdir(join(ROOT, 'sql'))).filter((name) => name.endsWith('.sql')).sort()
const entries = names.map(async (name) => {
  const text = await readFile(join(ROOT, 'sql', name), 'utf8')
  return `  ${JSON.stringify(name)}: ${JSON.stringify(text)},\n`
})
const source = `// The files of sql/ as they were when the package was built.
const TEXTS = {
${(await Promise.all(entries)).join('')}}

export function readMigrationTexts() {
  return TEXTS
}
`

const file = join(directory, 'postgres/schema/migration-texts.js')
await mkdir(dirname(file), { recursive: true })
await writeFile(file, source)
// The source map of the replaced module.
await rm(`${file}.map`, { force: true })
