import { type RoleOfPart, writeGrants } from '../../postgres/schema/grants.ts'
import { PARTS, type Part, PRIVILEGES } from '../../postgres/schema/privileges.ts'
import { type Command, defineCommand } from '../command.ts'
import { UsageError } from '../failure.ts'
import { repeated } from '../flags.ts'

function roleOf(part: Part): ReturnType<typeof repeated> {
  return repeated('ROLE', `a role for ${PRIVILEGES[part].purpose}`)
}

/** Prints least-privilege grants for database roles. */
export const grants: Command = defineCommand({
  name: 'grants',
  summary: 'prints least-privilege grants for database roles, as SQL',
  about: `Reads no database and changes nothing: the owner of the schema runs the SQL, after each migrate, because new tables and functions have no grants yet. The roles must exist. The SQL only adds privileges, except that it revokes public execution of the schema's functions. You can pass a role to several flags. The role that migrates owns the schema and needs no grants.`,
  flags: {
    api: roleOf('api'),
    platform: roleOf('platform'),
    settings: roleOf('settings'),
    worker: roleOf('worker'),
    publisher: roleOf('publisher'),
    administrator: roleOf('administrator'),
    eraser: roleOf('eraser'),
  },
  examples: {
    'an API that cannot read signing secrets, and a worker that sends webhooks':
      'business-api-kit grants --api app_api --worker app_worker | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"',
    'one role for the API and your own calls': 'business-api-kit grants --api app --platform app',
  },
  async run(flags, session) {
    const roles = PARTS.flatMap((part) => flags[part].map((role): RoleOfPart => ({ part, role })))
    if (roles.length === 0)
      throw new UsageError(`Pass at least one of ${PARTS.map((part) => `--${part}`).join(', ')}`)
    const statements = readStatements(roles)
    await session.print(
      { statements },
      () => `begin;\n${statements.map((line) => `${line};\n`).join('')}commit;\n`,
    )
  },
})

function readStatements(roles: readonly RoleOfPart[]): readonly string[] {
  try {
    return writeGrants(roles)
  } catch (error) {
    if (error instanceof RangeError) throw new UsageError(error.message)
    throw error
  }
}
