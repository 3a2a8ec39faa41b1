import type { Inspector } from '../postgres/inspector.ts'
import {
  type Check,
  checkBacklog,
  checkClock,
  checkLeases,
  checkMigrations,
  checkSchema,
  checkSecrets,
  checkVersion,
} from './checks.ts'
import { type Command, defineCommand } from './command.ts'
import { withInspector } from './database.ts'
import { codeOf, describeFailure, Failure } from './failure.ts'
import { readSecretKeys } from './sealing.ts'
import { SECRETS_LOOKED_AT } from './sealing-check.ts'
import type { Session } from './session.ts'
import { isReadable } from './status.ts'
import { visible } from './text.ts'

/** Judges how things stand. */
export const doctor: Command = defineCommand({
  name: 'doctor',
  summary: 'checks that everything is in order, and says what to do where it is not',
  about: `Checks the connection, the version of PostgreSQL, the clocks, pending migrations, whether the schema is still as the
migrations have made it, stuck leases, the backlog, and whether BUSINESS_API_SECRET_KEYS opens the stored secrets.
Reads only. The exit code is 1 when a check fails; a warning is none.`,
  flags: {},
  examples: [
    { purpose: 'after a deployment, or when something is wrong', line: 'business-api doctor' },
    {
      purpose: 'the names of failed checks',
      line: `business-api doctor --json | jq -r '.checks[] | select(.level == "fail").name'`,
    },
  ],
  async run(_, session) {
    const secretKeys = readSecretKeys(session)
    const checks = await withInspector(session.databaseUrl(), (inspector) => runChecks(inspector, secretKeys))
    const failed = checks.filter(({ level }) => level === 'fail')
    await session.print({ ok: failed.length === 0, checks }, () => checks.map(describeCheck).join(''))
    if (failed.length > 0) throw new Failure(describeFailed(failed, session))
  },
})

/** Each by itself: one that fails does not keep the others from being done, but for those that it is the ground of. */
async function runChecks(inspector: Inspector, secretKeys: readonly string[]): Promise<readonly Check[]> {
  const connection = await attempt('connection', async () => {
    const { database, version, clockErrorMs } = await inspector.server()
    const roundTrip = `${(clockErrorMs * 2).toFixed(1)} ms`
    return { level: 'ok', message: `database ${database} on PostgreSQL ${version} answers in ${roundTrip}` }
  })
  if (connection.level === 'fail') return [{ ...connection, advice: CONNECTION_ADVICE }]

  const server = await inspector.server()
  const checks = [connection, checkVersion(server), checkClock(server)]
  const migrations = await attempt('migrations', async () => checkMigrations(await inspector.schema()))
  checks.push(migrations)
  if (migrations.level === 'fail' || !isReadable(await inspector.schema())) return checks

  return [
    ...checks,
    await attempt('schema', async () => checkSchema(await inspector.drift())),
    await attempt('leases', async () => checkLeases(await inspector.endedLeases())),
    await attempt('backlog', async () => checkBacklog(await inspector.backlog())),
    await attempt('secrets', async () => {
      return checkSecrets(await inspector.secrets(SECRETS_LOOKED_AT), secretKeys)
    }),
  ]
}

const CONNECTION_ADVICE =
  'see that PostgreSQL runs, and that DATABASE_URL names it with its user and password'

async function attempt(name: string, check: () => Promise<Omit<Check, 'name'>>): Promise<Check> {
  try {
    return { name, ...(await check()) }
  } catch (error) {
    return { name, level: 'fail', message: describeFailure(error).line, advice: adviceFor(error) }
  }
}

/** The user of the connection may not do what the check does. */
const INSUFFICIENT_PRIVILEGE = '42501'

/** Of a check that could not be made. */
function adviceFor(error: unknown): string {
  if (codeOf(error) === INSUFFICIENT_PRIVILEGE) {
    return 'name the user who has migrated in DATABASE_URL, or grant this one usage of the schema business_api and what it needs of its tables'
  }
  return `${CONNECTION_ADVICE}; if it does, see what its log says`
}

/** Of what a check has found, so that the rest can still be read. */
const DETAILS_SHOWN = 10

function describeCheck({ name, level, message, details = [], advice }: Check): string {
  const lines = [`${level.padEnd(4)}  ${name.padEnd(10)}  ${message}`]
  const indent = ' '.repeat(18)
  for (const detail of details.slice(0, DETAILS_SHOWN)) lines.push(`${indent}- ${detail}`)
  if (details.length > DETAILS_SHOWN) lines.push(`${indent}- and ${details.length - DETAILS_SHOWN} more`)
  if (advice !== undefined) lines.push(`${indent}→ ${advice}`)
  return lines.map((line) => `${visible(line)}\n`).join('')
}

function describeFailed(failed: readonly Check[], { isJson }: Session): string {
  const names = failed.map(({ name }) => name).join(', ')
  const what = failed.length === 1 ? `The check ${names} has failed` : `The checks ${names} have failed`
  return isJson ? what : `${what}: what to do stands above`
}
