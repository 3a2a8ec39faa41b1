import { UsageError } from './failure.ts'

const FORM = 'postgres://user:password@host:5432/database'

/**
 * A connection string that can be used. It is never repeated, as it holds a password; nor can a part of the password be
 * taken for the host, which errors do name.
 *
 * @throws `UsageError`
 */
export function readDatabaseUrl(url: string | undefined): string {
  if (!url) throw new UsageError(`Set DATABASE_URL to a PostgreSQL database, or pass --database-url ${FORM}`)
  if (!/^postgres(ql)?:\/\/./.test(url))
    throw new UsageError(`Cannot use DATABASE_URL as it must be like ${FORM}`)
  const [, ...rest] = url.split('@')
  const isAmbiguous = rest.length > 1 || url.includes('#') || /[/?]/.test(userOf(url))
  if (isAmbiguous) {
    throw new UsageError(
      'Cannot use DATABASE_URL as a password with one of @ / ? # must have them percent-encoded, as %40 %2F %3F %23',
    )
  }
  if (!isDecodable(url)) {
    throw new UsageError('Cannot use DATABASE_URL as a % that encodes nothing must be encoded itself, as %25')
  }
  if (!isUrl(url)) throw new UsageError(`Cannot use DATABASE_URL as it must be like ${FORM}`)
  return url
}

/** What stands before the @, without the protocol; empty where there is none. */
function userOf(url: string): string {
  const [, user = ''] = /^[a-z]+:\/\/(.*)@/.exec(url) ?? []
  return user
}

function isDecodable(url: string): boolean {
  try {
    return typeof decodeURIComponent(url) === 'string'
  } catch {
    return false
  }
}

function isUrl(url: string): boolean {
  try {
    // Of several hosts, which a URL cannot have, the first.
    return Boolean(new URL(url.replace(/,[^/]*/, '')))
  } catch {
    return false
  }
}
