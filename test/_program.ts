import { join, relative } from 'node:path'

// How a test starts a TypeScript program of this repository: compiled in a run of `npm test`, and with tsx in a run of one file.

export const ROOT: string = join(import.meta.dirname, '..')

/** True in a run of `npm test` or `npm run test:more`. */
export const isCompiled: boolean = import.meta.filename.endsWith('.js')

/** Where `_compile.ts` writes. */
export const COMPILED: string = join(ROOT, '.compiled')

/** The compiled form of a source. */
export function compiledFile(source: string): string {
  return join(COMPILED, relative(ROOT, source)).replace(/\.ts$/, '.js')
}

/** The file of a program that Node.js runs as this process runs its own. @param source the absolute path of a TypeScript file */
export function programFile(source: string): string {
  return isCompiled ? compiledFile(source) : source
}

/** The arguments with which Node.js runs a program. @param source the absolute path of a TypeScript file */
export function programArguments(source: string): string[] {
  return isCompiled ? [compiledFile(source)] : ['--import', 'tsx', source]
}
