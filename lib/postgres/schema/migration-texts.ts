import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Migrations by file name. */
export type MigrationTexts = Readonly<Record<string, string>>

/** File name of the first migration, which creates the whole schema. */
export const BASELINE = '0001-baseline.sql'

const SQL = join(import.meta.dirname, '..', '..', '..', 'sql')

/**
 * Reads the database's definition: the files of `sql/`, one for each noun, by name.
 *
 * @param directory default: `sql/` of this package
 */
export function readDefinition(directory: string = SQL): MigrationTexts {
  return readSqlFiles(directory)
}

/**
 * Reads the migrations: the baseline, then the files of `sql/migrations/`. Until the first release the baseline is the definition
 * itself; a release freezes the baseline as a file of `sql/migrations/` (`.github/CONTRIBUTING.md`).
 *
 * `npm run build` replaces this module by one that holds the texts (embed-migrations.mjs), because a bundle has no folder `sql/`
 * beside it.
 *
 * @param directory default: `sql/` of this package
 */
export function readMigrationTexts(directory: string = SQL): MigrationTexts {
  const folder = join(directory, 'migrations')
  const migrations = existsSync(folder) ? readSqlFiles(folder) : {}
  return { [BASELINE]: Object.values(readDefinition(directory)).join('\n'), ...migrations }
}

function readSqlFiles(directory: string): MigrationTexts {
  const names = readdirSync(directory).filter((name) => name.endsWith('.sql'))
  return Object.fromEntries(names.sort().map((name) => [name, readFileSync(join(directory, name), 'utf8')]))
}
