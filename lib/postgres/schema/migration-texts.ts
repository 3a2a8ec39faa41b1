import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Migrations by the names of their files. */
export type MigrationTexts = Readonly<Record<string, string>>

/**
 * Reads the migrations of this package. In the sources the function reads `sql/`. `npm run build` replaces this module by a
 * module that holds the texts (embed-migrations.mjs), because a bundle has no folder `sql/` beside it.
 */
export function readMigrationTexts(): MigrationTexts {
  const directory = join(import.meta.dirname, '..', '..', '..', 'sql')
  const names = readdirSync(directory).filter((name) => name.endsWith('.sql'))
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(directory, name), 'utf8')]))
}
