import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

// The package as users get it: packed, and installed into other projects elsewhere.

const run = promisify(execFile)

/** The top directory of the sources. */
export const ROOT: string = join(import.meta.dirname, '..')

/** The packed package. */
export interface Packed {
  readonly tarball: string
  /** Bytes of the tarball. */
  readonly size: number
  /** Bytes of all files. */
  readonly unpackedSize: number
  readonly files: readonly string[]
}

/** Builds and packs the package into a directory. */
export async function pack(directory: string): Promise<Packed> {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', directory], { cwd: ROOT })
  const [report]: [PackReport] = JSON.parse(stdout.slice(stdout.indexOf('[\n')))
  const { filename, size, unpackedSize, files } = report
  return { tarball: join(directory, filename), size, unpackedSize, files: files.map(({ path }) => path) }
}

interface PackReport {
  readonly filename: string
  readonly size: number
  readonly unpackedSize: number
  readonly files: readonly { readonly path: string }[]
}

/** Makes a project of the given files, and installs packages into the project. Returns npm's warnings. */
export async function installProject(
  project: string,
  files: Readonly<Record<string, string | object>>,
  packages: readonly string[],
  options: readonly string[] = [],
): Promise<string> {
  for (const [path, content] of Object.entries(files)) {
    const file = join(project, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content, null, 2))
  }
  const args = ['install', '--no-audit', '--no-fund', ...options, ...packages]
  const { stderr } = await run('npm', args, { cwd: project })
  return stderr
}
