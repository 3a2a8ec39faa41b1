import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Migrations by file name. */
export type MigrationTexts = Readonly<Record<string, string>>

/** File name of the first migration, which creates the whole schema. */
export const BASELINE = '0001-baseline.sql'

const SQL = join(import.meta.dirname, '..', '..', '..', 'sql')

/** Reads the database definition, with one file in `sql/` for each kind of object. */
export function readDefinition(directory: string = SQL): MigrationTexts {
  return readSqlFiles(directory)
}

/**
 * Reads all migrations: the baseline, then the files in `sql/migrations/`. Until the first release, the baseline is the
 * current definition. A release then freezes the baseline as a file in `sql/migrations/` (see
 * `.github/CONTRIBUTING.md`).
 *
 * `npm run build` replaces this module with one that embeds the SQL (see embed-migrations.mjs), because there's no
 * `sql/` directory next to a bundle.
 *
 * @param directory defaults to this package's `sql/` directory
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
