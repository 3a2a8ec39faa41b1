import { access, readdir } from 'node:fs/promises'
import { join } from 'node:path'

// The PostgreSQL servers installed on this machine: those in `PG_BIN`, a list of directories with `postgres` and
// `initdb`, and those in Debian's layout.

const DEBIAN = '/usr/lib/postgresql'
const given = (process.env.PG_BIN ?? '').split(':').filter((folder) => folder !== '')
const installed = (await readdir(DEBIAN).catch(() => [])).map((version) => join(DEBIAN, version, 'bin'))

/** The directories with the programs. */
export const FOLDERS: readonly string[] = [...new Set([...given, ...installed])]

/** Returns the first directory that also has another program, such as `pg_dump`, or `undefined` if there's none. */
export async function folderWith(program: string): Promise<string | undefined> {
  for (const folder of FOLDERS) {
    const isThere = await access(join(folder, program)).then(
      () => true,
      () => false,
    )
    if (isThere) return folder
  }
  return undefined
}
