import { CONNECTION_FORM } from '../postgres/connection/connection-string.ts'
import type { Command, Examples, Group } from './command.ts'
import type { Flag, Flags } from './flags.ts'
import { dashed } from './names.ts'
import { formatPairs, wrap, wrapParagraphs } from './text.ts'

// Help for people who are new to a command. Starts with the purpose, followed by flags and examples.

const PROGRAM = 'business-api-kit'

type Row = readonly [name: string, explanation: string]

/** Returns the program's help, which lists all commands. @param width terminal width in columns */
export function describeProgram(commands: readonly (Command | Group)[], width: number): string {
  const rows = commands.flatMap((entry) =>
    'commands' in entry
      ? entry.commands.map((command): Row => [`${entry.name} ${command.name}`, command.summary])
      : [[entry.name, entry.summary] satisfies Row],
  )
  return `${wrapParagraphs(`${PROGRAM}: operates the business API and its webhooks on a PostgreSQL database`, width)}

  ${PROGRAM} COMMAND [flags]

Commands
${formatPairs(rows, width, 2)}
  ${PROGRAM} COMMAND --help explains a command and shows examples.

Environment
${formatPairs(VARIABLES, width, 2)}
${wrapParagraphs(CONVENTIONS, width)}

Examples
${formatExamples(Object.entries(PROGRAM_EXAMPLES), width)}`
}

const VARIABLES: readonly Row[] = [
  ['DATABASE_URL', `the database: ${CONNECTION_FORM}`],
  ['DATABASE_URLS', 'several databases instead, one for each shard: a=postgres://…,b=postgres://…'],
  [
    'BUSINESS_API_SECRET_KEYS',
    'the keys that seal signing secrets: 32 bytes in base64 each, separated by commas; the first key seals, every key opens',
  ],
  ['BUSINESS_API_ORGANIZATION', 'the organization, for commands without --organization'],
  ['BUSINESS_API_SERVICE', "the module that exports your 'service': the names of its keys, headers and API"],
  ['BUSINESS_API_INSTALLATION', "the installation's name: a loop waits on another one's database"],
]

const CONVENTIONS = `The result goes to stdout, everything else to stderr. With --json the result is one JSON value. The exit code is 0 after success, 1 after a failure, and 2 for a command line that cannot be understood.

A command that ends something (purge, remove, revoke, recover, disable, rotate without an overlap) first says what it ends, in numbers, and asks. Without a terminal it needs --yes. With --dry-run it only says so.`

const PROGRAM_EXAMPLES: Examples = {
  'create the schema, or bring it up to date':
    'DATABASE_URL=postgres://localhost/app business-api-kit migrate',
  'an API key; it is shown only once':
    'business-api-kit keys create -o org_42 --scopes clients:read,clients:write',
  'an endpoint for two types of event; its signing secret is shown only once':
    'business-api-kit endpoints add -o org_42 --url https://hooks.example/in --types invoice.paid,client.created',
  'deliver events until a signal stops it': 'business-api-kit deliver',
  'is everything all right?': 'business-api-kit doctor',
}

/** Returns a group's help, which lists its commands. @param width terminal width in columns */
export function describeGroup({ name, summary, commands }: Group, width: number): string {
  const examples = commands.flatMap((command) => Object.entries(command.examples).slice(0, 1))
  const rows = commands.map((command): Row => [`${name} ${command.name}`, command.summary])
  return `${wrapParagraphs(`${PROGRAM} ${name}: ${summary}`, width)}

Commands
${formatPairs(rows, width, 2)}
Examples
${formatExamples(examples, width)}`
}

/** Returns a command's help, including its flags and examples. @param width terminal width in columns */
export function describeCommand(command: Command, path: readonly string[], width: number): string {
  const words = [PROGRAM, ...path, command.name].join(' ')
  const about = command.about === undefined ? '' : `${wrapParagraphs(command.about, width)}\n\n`
  const usage = [words, command.argument, ...formatRequired(command.flags), '[flags]'].filter(Boolean)
  return `${wrapParagraphs(`${words}: ${command.summary}`, width)}

  ${wrap(usage.join(' '), width - 6).join('\n      ')}

${about}Flags
${formatPairs(flagRows(command.flags), width, 2)}
Examples
${formatExamples(Object.entries(command.examples), width)}`
}

function formatRequired(flags: Flags): string[] {
  return Object.entries(flags).flatMap(([name, { isRequired, takes }]) =>
    isRequired ? [`${dashed(name)} ${takes}`] : [],
  )
}

function flagRows(flags: Flags): Row[] {
  const rows = Object.entries(flags).map(([name, flag]): Row => [formatTyped(name, flag), explain(flag)])
  return [...rows, ['--help', 'print this']]
}

function formatTyped(name: string, { short, takes }: Flag): string {
  const names = short === undefined ? dashed(name) : `${dashed(name)}, -${short}`
  return takes === null ? names : `${names} ${takes}`
}

function explain({ help, isRepeatable, variable }: Flag): string {
  const repeat = isRepeatable ? '; may be repeated' : ''
  return `${help}${repeat}${variable === undefined ? '' : `; variable: ${variable}`}`
}

/** Formats example commands. Long lines are broken in a way that a shell accepts. */
function formatExamples(examples: [purpose: string, line: string][], width: number): string {
  return examples
    .map(([purpose, line]) => {
      const comment = wrap(purpose, width - 4).map((part) => `  # ${part}\n`)
      return `${comment.join('')}  ${breakCommand(line, width - 2).join(' \\\n      ')}\n`
    })
    .join('')
}

/** Breaks a command line before flags, and never inside quotes. */
function breakCommand(line: string, width: number): readonly string[] {
  const parts: string[] = []
  for (const word of line.split(/ (?=--?[a-z])(?=(?:[^']*'[^']*')*[^']*$)/)) {
    const last = parts.at(-1)
    // The backslash takes up two columns, and continuation lines are indented by another four.
    if (last !== undefined && last.length + word.length + 1 <= width - (parts.length > 1 ? 6 : 2)) {
      parts[parts.length - 1] = `${last} ${word}`
    } else parts.push(word)
  }
  return parts
}
