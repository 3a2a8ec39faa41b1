import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Catalogue } from '../../lib/postgres/schema/catalogue.ts'
import { SCHEMA_FINGERPRINT } from '../../lib/postgres/schema/fingerprint.ts'
import { createInspector, type Inspector } from '../../lib/postgres/schema/inspector.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

const FILE = join(import.meta.dirname, '../../lib/postgres/schema/fingerprint.ts')

let database: TestDatabase
let inspector: Inspector

before(async () => {
  database = await createTestDatabase()
  inspector = createInspector(database.url)
})

after(async () => {
  await inspector.close()
  await database.drop()
})

test("the package's fingerprint matches that of an empty database after migrating", async () => {
  const { current: migration } = await inspector.schema()
  const objects = await inspector.catalogue()
  if (process.env.UPDATE_SCHEMA) {
    await writeFingerprint({ migration, objects })
    return
  }
  assert.deepEqual(SCHEMA_FINGERPRINT, { migration, objects }, 'If the change is meant: UPDATE_SCHEMA=1')
})

async function writeFingerprint({ migration, objects }: typeof SCHEMA_FINGERPRINT): Promise<void> {
  const source = await readFile(FILE, 'utf8')
  const written = source
    .replace(/(migration: )\d+/, `$1${migration}`)
    .replace(/(parseCatalogue\(`\n)[^`]*/, `$1${formatCatalogue(objects)}`)
  await writeFile(FILE, written)
}

/** The prefix shared by all objects in a line, for example `column clients.` or `index leads_`. */
const SHARED = /^(?:(?:column|constraint|trigger) \w+\.|index [a-z]+_|(?:table|type) )/

/** Formats a catalogue for `parseCatalogue`, with one line for a table's columns, one for its constraints and so on, and one per function. */
function formatCatalogue(catalogue: Catalogue): string {
  const lines = new Map<string, string[]>()
  for (const [name, digest] of Object.entries(catalogue)) {
    const [shared = ''] = SHARED.exec(name) ?? []
    const key = shared || name
    lines.set(key, [...(lines.get(key) ?? [shared]), `${name.slice(shared.length)}=${digest}`])
  }
  return [...lines.values()].map((parts) => `${parts.join('|')}\n`).join('')
}
