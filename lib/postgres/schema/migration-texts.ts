import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Migrations by the names of their files. */
export type MigrationTexts = Readonly<Record<string, string>>

/**
 * The migrations of this package. The sources read them from `sql/`; `npm run build` replaces this module by one that
 * holds their texts (embed-migrations.mjs), because there is no folder to be read beside a bundle.
 */
export function readMigrationTexts(): MigrationTexts {
  const directory = join(import.meta.dirname, '..', '..', '..', 'sql')
  const names = readdirSync(directory).filter((name) => name.endsWith('.sql'))
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(directory, name), 'utf8')]))
}
