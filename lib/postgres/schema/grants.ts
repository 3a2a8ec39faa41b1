import { type Part, PRIVILEGES, type Privileges, type TablePrivileges } from './privileges.ts'

/** A database role and the part of the application that uses it. */
export interface RoleOfPart {
  readonly part: Part
  readonly role: string
}

/**
 * Returns the statements that grant roles their privileges, to be run by the schema's owner. A role's other privileges
 * aren't revoked, but PostgreSQL's default of letting every role call functions is.
 *
 * @throws RangeError if a string isn't a valid role name
 */
export function writeGrants(roles: readonly RoleOfPart[]): readonly string[] {
  return [
    'revoke execute on all functions in schema business_api from public',
    ...roles.flatMap(({ part, role }) => grantsOf(PRIVILEGES[part], quoteRole(role))),
  ]
}

/** Returns the grant that a PostgreSQL error message in any language calls for, if it names a table the part needs. */
export function grantFor(part: Part, denied: string): string | undefined {
  const named = Object.keys(PRIVILEGES[part].tables).find((table) => denied.split(/\W+/).includes(table))
  return writeGrants([{ part, role: 'ROLE' }]).find((grant) =>
    grant.includes(` on business_api.${named} to `),
  )
}

function grantsOf({ tables, functions = [] }: Privileges, role: string): readonly string[] {
  return [
    `grant usage on schema business_api to ${role}`,
    ...Object.entries(tables).map(([table, privileges]) => {
      return `grant ${listOf(privileges)} on business_api.${table} to ${role}`
    }),
    grantFunctions(role),
    ...functions.map((name) => `grant execute on function business_api.${name} to ${role}`),
  ]
}

/** Grants all functions that run with the caller's privileges, where table privileges decide what they can do. */
function grantFunctions(role: string): string {
  const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`
  const body = `declare name regprocedure; begin
  for name in select oid from pg_catalog.pg_proc
    where pronamespace = 'business_api'::pg_catalog.regnamespace and not prosecdef loop
    execute pg_catalog.format(${literal(`grant execute on function %s to ${role.replaceAll('%', '%%')}`)}, name);
  end loop;
end`
  return `do ${literal(body)}`
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

/** PostgreSQL's maximum name length in bytes. A longer name would be truncated and could then refer to another role. */
const NAME_BYTES_MAX = 63

function quoteRole(role: string): string {
  if (role === '' || Buffer.byteLength(role) > NAME_BYTES_MAX || role.includes('\0')) {
    throw new RangeError(
      `Cannot use a role because its name must have 1 to ${NAME_BYTES_MAX} bytes, without NUL`,
    )
  }
  return `"${role.replaceAll('"', '""')}"`
}
