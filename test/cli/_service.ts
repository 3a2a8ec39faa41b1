import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import type { ServiceOptions } from '../../lib/service.ts'

/** Writes a module for `--service`. @returns the path */
export async function writeService(names: ServiceOptions): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), 'service-')), 'service.mjs')
  await writeFile(path, `export const service = ${inspect(names)}\n`)
  return path
}
