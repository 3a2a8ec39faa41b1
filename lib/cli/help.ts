import type { Command, Example, Group } from './command.ts'
import type { Flags } from './flags.ts'
import { dashed } from './names.ts'

// What --help prints. It is read by people who have not used the command before: what it does, then how, then lines to copy.

const PROGRAM = 'business-api'

/** The help of the program: all of its commands. */
export function describeProgram(commands: readonly (Command | Group)[]): string {
  const rows = commands.flatMap((entry) =>
    'commands' in entry
      ? entry.commands.map((command): Row => [`${entry.name} ${command.name}`, command.summary])
      : [[entry.name, entry.summary] satisfies Row],
  )
  return `${PROGRAM}: operates the business API and its webhooks on a PostgreSQL database

  ${PROGRAM} COMMAND [flags]

Commands
${formatRows(rows)}
  business-api COMMAND --help explains a command and shows examples of it.

Environment
${formatRows([
  ['DATABASE_URL', 'the database: postgres://user:password@host:5432/database'],
  [
    'BUSINESS_API_SECRET_KEYS',
    'what seals the signing secrets of endpoints: keys of 32 bytes in base64, with',
  ],
  ['', 'commas between them; the first one seals, all of them open'],
])}
A result goes to stdout, everything else to stderr. With --json a result is one JSON value. The exit code is 0 when all
was done, 1 when it was not, and 2 when the command line cannot be understood.

Examples
${formatExamples([
  {
    purpose: 'make the schema, or bring it up to date',
    line: 'DATABASE_URL=postgres://localhost/app business-api migrate',
  },
  {
    purpose: 'an API key, shown this once',
    line: 'business-api keys create --organization org_42 --scopes clients:read,clients:write',
  },
  {
    purpose: 'an endpoint for two types of event; prints its signing secret',
    line: 'business-api endpoints add --organization org_42 --url https://hooks.example/in --types invoice.paid,client.created',
  },
  { purpose: 'deliver until told to stop', line: 'business-api deliver' },
  { purpose: 'is everything in order?', line: 'business-api doctor' },
])}`
}

/** The help of a group: its commands. */
export function describeGroup({ name, summary, commands }: Group): string {
  const examples = commands.flatMap((command) => command.examples.slice(0, 1))
  return `${PROGRAM} ${name}: ${summary}

Commands
${formatRows(commands.map((command): Row => [`${name} ${command.name}`, command.summary]))}
Examples
${formatExamples(examples)}`
}

/** The help of a command: what it does, its flags, and lines to copy. */
export function describeCommand(command: Command, path: readonly string[]): string {
  const words = [PROGRAM, ...path, command.name].join(' ')
  const about = command.about === undefined ? '' : `${command.about}\n\n`
  return `${words}: ${command.summary}

  ${[words, command.argument, ...formatRequired(command.flags), '[flags]'].filter(Boolean).join(' ')}

${about}Flags
${formatRows(flagRows(command.flags))}
Examples
${formatExamples(command.examples)}`
}

type Row = [name: string, explanation: string]

function formatRequired(flags: Flags): string[] {
  return Object.entries(flags).flatMap(([name, { isRequired, takes }]) =>
    isRequired ? [`${dashed(name)} ${takes}`] : [],
  )
}

function flagRows(flags: Flags): Row[] {
  const rows = Object.entries(flags).map(([name, flag]): Row => {
    const typed = [dashed(name), flag.takes].filter(Boolean).join(' ')
    return [typed, flag.isRepeatable ? `${flag.help}; may be repeated` : flag.help]
  })
  return [...rows, ['--help', 'print this']]
}

function formatRows(rows: readonly Row[]): string {
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, explanation]) => `  ${name.padEnd(width)}  ${explanation}\n`).join('')
}

function formatExamples(examples: readonly Example[]): string {
  return examples.map(({ purpose, line }) => `  # ${purpose}\n  ${line}\n`).join('')
}
