import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import type { ServiceOptions } from '../../lib/service.ts'

/** Writes a module for `--service` that exports the service under the given name. @returns its path */
export async function writeService(names: ServiceOptions, exported = 'service'): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), 'service-')), 'service.mjs')
  await writeFile(path, `export const ${exported} = ${inspect(names)}\n`)
  return path
}
