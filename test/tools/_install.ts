// Whoever imports or runs this has the packages of package.json in this folder. The folders that use them reach them by a link, so
// that no other test gets the `pg` or `postgres` of a tool instead of the library's own.

import { execFile } from 'node:child_process'
import { rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const USERS = ['agents', 'bench', 'drivers', 'mounts', 'openapi/tools']

const cwd = import.meta.dirname
const run = promisify(execFile)

// A second run finds the packages installed. Under `npm run`, .npmrc of the library comes before that of this folder.
await run('npm', ['ls'], { cwd }).catch(() => run('npm', ['ci', '--engine-strict=false'], { cwd }))
for (const user of USERS) {
  const link = join(cwd, '..', user, 'node_modules')
  await rm(link, { recursive: true, force: true })
  await symlink(join(cwd, 'node_modules'), link, 'junction')
}
