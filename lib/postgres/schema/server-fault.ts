/** Requirements for a database that holds the schema. */
export interface ServerKind {
  /** `18.0`. */
  readonly version: string
  /** `180000`. */
  readonly versionNumber: number
  /** `UTF8`. */
  readonly encoding: string
}

/** Why a database cannot hold the schema. */
export interface ServerFault {
  readonly message: string
  readonly advice: string
}

/** The oldest version that the README names. */
const VERSION_MIN = 140_000

/** Finds why a database cannot hold the schema; null if the database can. */
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
