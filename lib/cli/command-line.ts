import { parseArgs } from 'node:util'
import { UsageError } from './failure.ts'
import type { Flags } from './flags.ts'
import { dashed, suggest } from './names.ts'

/** The arguments of a command, taken apart. */
export interface CommandLine {
  /** The texts of each typed flag by the name of its code; an empty text for a flag without a value. */
  readonly typed: ReadonlyMap<string, readonly string[]>
  readonly positionals: readonly string[]
}

/**
 * Takes the arguments of a command apart. No error repeats a value, because a value may be a secret.
 *
 * @throws `UsageError` in one line
 */
export function parseCommandLine(args: readonly string[], flags: Flags): CommandLine {
  const names = new Map(Object.keys(flags).map((name) => [dashed(name).slice(2), name]))
  // Not strict: the errors of `parseArgs` take several lines and recommend a syntax that no command here has.
  const { tokens } = parseArgs({
    args: [...args],
    options: describeOptions(flags),
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const typed = new Map<string, string[]>()
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const name = names.get(token.name)
    const flag = name === undefined ? undefined : flags[name]
    if (name === undefined || !flag) throw unknown(token.rawName, names)
    checkValue(token, flag.takes)
    const texts = typed.get(name) ?? []
    if (texts.length > 0 && !flag.isRepeatable) throw new UsageError(`${token.rawName} is given twice`)
    typed.set(name, [...texts, token.value ?? ''])
  }
  const positionals = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []))
  return { typed, positionals }
}

function describeOptions(
  flags: Flags,
): Record<string, { readonly type: 'string' | 'boolean'; short?: string }> {
  const options = Object.entries(flags).map(([name, { takes, short }]) => {
    const type = takes === null ? ('boolean' as const) : ('string' as const)
    return [dashed(name).slice(2), short === undefined ? { type } : { type, short }] as const
  })
  return Object.fromEntries(options)
}

function unknown(rawName: string, names: ReadonlyMap<string, string>): UsageError {
  const candidates = [...names.keys()].map((name) => `--${name}`)
  return new UsageError(`Unknown flag '${rawName}'${suggest(rawName, candidates)}`)
}

interface OptionToken {
  readonly rawName: string
  readonly value?: string | undefined
  readonly inlineValue?: boolean | undefined
}

function checkValue({ rawName, value, inlineValue }: OptionToken, takes: string | null): void {
  if (takes === null && value !== undefined) throw new UsageError(`${rawName} takes no value`)
  // `-organization` is a slip, and would otherwise be `-o rganization`.
  if (inlineValue && !rawName.startsWith('--')) {
    throw new UsageError(`Cannot read ${rawName} and its value in one word; write: ${rawName} ${takes}`)
  }
  // The parser takes the next flag for the value.
  const isMissing = value === undefined || value === '' || (!inlineValue && /^-./.test(value))
  if (takes !== null && isMissing) throw new UsageError(`${rawName} needs a value: ${rawName} ${takes}`)
}
