import { access, readdir } from 'node:fs/promises'
import { join } from 'node:path'

// The PostgreSQL servers of this machine: of `PG_BIN`, a list of folders with `postgres` and `initdb`, and of Debian's layout.

const DEBIAN = '/usr/lib/postgresql'
const given = (process.env.PG_BIN ?? '').split(':').filter((folder) => folder !== '')
const installed = (await readdir(DEBIAN).catch(() => [])).map((version) => join(DEBIAN, version, 'bin'))

/** The folders of programs. */
export const FOLDERS: readonly string[] = [...new Set([...given, ...installed])]

/** The first folder that also has a program, such as `pg_dump`; undefined if none has. */
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
