/** Server properties that decide whether the schema can be installed. */
export interface ServerKind {
  /** For example `18.0`. */
  readonly version: string
  /** For example `180000`. */
  readonly versionNumber: number
  /** For example `UTF8`. */
  readonly encoding: string
}

/** The reason why the schema can't be installed. */
export interface ServerFault {
  readonly message: string
  readonly advice: string
}

/** Oldest supported version, as listed in the README. */
const VERSION_MIN = 140_000

/** Returns the reason why the schema can't be installed, or `null` if it can. */
export function findServerFault({ version, versionNumber, encoding }: ServerKind): ServerFault | null {
  if (versionNumber < VERSION_MIN)
    return { message: `PostgreSQL ${version} is too old`, advice: 'use PostgreSQL 14 or later' }
  if (encoding === 'UTF8') return null
  const reason =
    encoding === 'SQL_ASCII'
      ? 'which counts bytes in place of characters and takes any bytes for text'
      : 'which cannot hold every text'
  return {
    message: `the encoding of the database is ${encoding}, ${reason}`,
    advice: "create a database with UTF-8: create database app template template0 encoding 'UTF8'",
  }
}
