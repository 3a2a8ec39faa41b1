import { MISSING_PRIVILEGE } from '../../base/errors.ts'
import { visible } from '../../base/visible-text.ts'
import type { Inspector } from '../../postgres/schema/inspector.ts'
import type { Service } from '../../service.ts'
import {
  type Check,
  checkBacklog,
  checkClock,
  checkDays,
  checkDocument,
  checkInstallation,
  checkKeyPrefix,
  checkLeases,
  checkMigrations,
  checkRetention,
  checkSchema,
  checkSecrets,
  checkShard,
  checkVersion,
} from '../checks.ts'
import { type Command, defineCommand } from '../command.ts'
import { installation } from '../common-flags.ts'
import { withInspector } from '../database.ts'
import { codeOf, describeFailure, Failure } from '../failure.ts'
import { readSecretKeys, SECRETS_CHECKED_MAX } from '../sealing.ts'
import type { Session } from '../session.ts'
import { formatPairs } from '../text.ts'
import { isReadable } from './status.ts'

/** Checks everything and reports problems. */
export const doctor: Command = defineCommand({
  name: 'doctor',
  summary: 'checks the installation and says how to fix problems',
  about: `Checks the connection, PostgreSQL's version, the clocks, pending migrations, schema changes outside the migrations, stuck leases, the backlog, the purge of old events, the database's installation, the organizations' shards, whether BUSINESS_API_SECRET_KEYS opens the stored secrets, and whether active keys and the API's document have the service's names. Reads only. The exit code is 1 if a check fails, but not for a warning.`,
  onShards: 'parallel',
  flags: { installation },
  examples: {
    'after a deployment, or when something is wrong': 'business-api-kit doctor',
    'the names of failed checks': `business-api-kit doctor --json | jq -r '.checks[] | select(.level == "fail").name'`,
  },
  async run({ installation: own }, session) {
    const secretKeys = readSecretKeys(session)
    const { service } = session
    const checks = await withInspector(session.databaseUrl(), (inspector) =>
      runChecks(inspector, { secretKeys, own, service }, session),
    )
    const failed = checks.filter(({ level }) => level === 'fail')
    await session.print({ ok: failed.length === 0, checks }, () => {
      return checks.map((check) => describeCheck(check, session.width())).join('')
    })
    if (failed.length > 0) throw new Failure(describeFailed(failed, session))
  },
})

/** Runs all checks even after failures, except checks that depend on a failed check. */
async function runChecks(
  inspector: Inspector,
  here: {
    readonly secretKeys: readonly string[]
    readonly own: string | undefined
    readonly service: Service
  },
  { explain, shard, shards }: Session,
): Promise<readonly Check[]> {
  const { secretKeys, own, service } = here
  const attempt = (name: string, check: () => Promise<Omit<Check, 'name'>>) =>
    attemptCheck(name, check, explain)
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
    await attempt('days', async () => checkDays(await inspector.days())),
    await attempt('retention', async () => checkRetention(await inspector.retention())),
    await attempt('installation', async () => checkInstallation(await inspector.installation(), own)),
    await attempt('secrets', async () => {
      return checkSecrets(await inspector.secrets(SECRETS_CHECKED_MAX), secretKeys)
    }),
    ...(shard === null
      ? []
      : [await attempt('shard', async () => checkShard(await inspector.shard(), shard, [...shards.keys()]))]),
    await attempt('keys', async () => checkKeyPrefix(await inspector.keyPrefixes(), service)),
    ...(service.baseUrl === undefined ? [] : [await attempt('document', () => checkDocument(service))]),
  ]
}

const CONNECTION_ADVICE =
  'check that PostgreSQL is running, and that DATABASE_URL has its address, user and password'

async function attemptCheck(
  name: string,
  check: () => Promise<Omit<Check, 'name'>>,
  explain: Session['explain'],
): Promise<Check> {
  try {
    return { name, ...(await check()) }
  } catch (error) {
    return { name, level: 'fail', message: describeFailure(explain(error)).line, advice: adviceFor(error) }
  }
}

function adviceFor(error: unknown): string {
  if (codeOf(error) === MISSING_PRIVILEGE) {
    return 'name the user who has migrated in DATABASE_URL, or grant this one its privileges: business-api-kit grants --administrator ROLE'
  }
  return `${CONNECTION_ADVICE}; if it does, read its log`
}

/** Maximum number of details per check. Keeps one check from hiding the others. */
const DETAILS_SHOWN = 10

function describeCheck({ name, level, message, details = [], advice }: Check, width: number): string {
  const more = details.length - DETAILS_SHOWN
  const explanations = [
    message,
    ...details.slice(0, DETAILS_SHOWN).map((detail) => `- ${detail}`),
    ...(more > 0 ? [`- and ${more} more`] : []),
    ...(advice === undefined ? [] : [`→ ${advice}`]),
  ]
  const pairs = explanations.map((explanation, index) => {
    return [index === 0 ? `${level.padEnd(4)}  ${name.padEnd(10)}` : '', visible(explanation)] as const
  })
  return formatPairs(pairs, width)
}

function describeFailed(failed: readonly Check[], { isJson }: Session): string {
  const names = failed.map(({ name }) => name).join(', ')
  const what = failed.length === 1 ? `The check ${names} has failed` : `The checks ${names} have failed`
  return isJson ? what : `${what}: see the advice above`
}
