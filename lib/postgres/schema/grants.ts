import { type Part, PRIVILEGES, type Privileges, type TablePrivileges } from './privileges.ts'

/** A role of the database with the part that it is for. */
export interface RoleOfPart {
  readonly part: Part
  readonly role: string
}

/**
 * The statements that give roles their privileges, for the owner of the schema. Statements only add: a role keeps what it
 * had been granted otherwise. Functions lose the privilege that PostgreSQL gives everybody.
 *
 * @throws RangeError for what cannot be the name of a role
 */
export function writeGrants(roles: readonly RoleOfPart[]): readonly string[] {
  return [
    'revoke execute on all functions in schema business_api from public',
    ...roles.flatMap(({ part, role }) => grantsOf(PRIVILEGES[part], quoteRole(role))),
  ]
}

function grantsOf({ tables, functions }: Privileges, role: string): readonly string[] {
  return [
    `grant usage on schema business_api to ${role}`,
    ...Object.entries(tables).map(([table, privileges]) => {
      return `grant ${listOf(privileges)} on business_api.${table} to ${role}`
    }),
    `grant execute on function ${functions.map((name) => `business_api.${name}`).join(', ')} to ${role}`,
  ]
}

function listOf(privileges: TablePrivileges): string {
  const { select, insert, update, delete: mayDelete } = privileges
  return [
    ...(select === undefined ? [] : [select === true ? 'select' : `select (${select.join(', ')})`]),
    ...(insert ? ['insert'] : []),
    ...(update === undefined ? [] : [`update (${update.join(', ')})`]),
    ...(mayDelete ? ['delete'] : []),
  ].join(', ')
}

/** Of PostgreSQL: longer names are cut, and may be another role's. */
const NAME_BYTES_MAX = 63

function quoteRole(role: string): string {
  if (role === '' || Buffer.byteLength(role) > NAME_BYTES_MAX || role.includes('\0')) {
    throw new RangeError(
      `Cannot use a role because its name must have 1 to ${NAME_BYTES_MAX} bytes, without NUL`,
    )
  }
  return `"${role.replaceAll('"', '""')}"`
}
