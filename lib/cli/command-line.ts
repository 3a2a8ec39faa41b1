import { parseArgs } from 'node:util'
import { UsageError } from './failure.ts'
import type { Flags } from './flags.ts'
import { dashed, suggest } from './names.ts'

/** A command line taken apart. */
export interface CommandLine {
  /** The texts of each flag that was typed, by the name of its code; of one without a value, an empty text. */
  readonly typed: ReadonlyMap<string, readonly string[]>
  readonly positionals: readonly string[]
}

/**
 * Takes the arguments of a command apart. No value is repeated in an error: it may be a secret.
 *
 * @throws `UsageError` in one line
 */
export function parseCommandLine(args: readonly string[], flags: Flags): CommandLine {
  const names = new Map(Object.keys(flags).map((name) => [dashed(name).slice(2), name]))
  const options = Object.fromEntries(
    [...names].map(([option, name]) => [
      option,
      { type: flags[name]?.takes ? 'string' : 'boolean' } as const,
    ]),
  )
  // Not strict: its own errors take several lines, and tell how to pass values that nothing here has.
  const { tokens } = parseArgs({
    args: [...args],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const typed = new Map<string, string[]>()
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const name = names.get(token.name)
    const flag = name === undefined ? undefined : flags[name]
    if (name === undefined || !flag || !token.rawName.startsWith('--')) throw unknown(token.rawName, names)
    checkValue(token, flag.takes)
    const texts = typed.get(name) ?? []
    if (texts.length > 0 && !flag.isRepeatable) throw new UsageError(`${token.rawName} is given twice`)
    typed.set(name, [...texts, token.value ?? ''])
  }
  const positionals = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []))
  return { typed, positionals }
}

function unknown(rawName: string, names: ReadonlyMap<string, string>): UsageError {
  const candidates = [...names.keys()].map((name) => `--${name}`)
  return new UsageError(`Unknown flag '${rawName}'${suggest(rawName, candidates)}`)
}

function checkValue(
  token: {
    readonly rawName: string
    readonly value?: string | undefined
    readonly inlineValue?: boolean | undefined
  },
  takes: string | null,
): void {
  const { rawName, value, inlineValue } = token
  if (takes === null && value !== undefined) throw new UsageError(`${rawName} takes no value`)
  // The next flag, which the parser would take for the value.
  const isMissing = value === undefined || value === '' || (!inlineValue && /^-./.test(value))
  if (takes !== null && isMissing) throw new UsageError(`${rawName} needs a value: ${rawName} ${takes}`)
}
