// A restored backup or a staging copy has the pending deliveries of production. The host names its installation, the name is in the
// database, and a delivery loop with another name waits.

/** The installation that a database belongs to. */
export interface Installation {
  /** Null if no loop with a name has started on the database. */
  readonly name: string | null
  /**
   * True if the server or the database is another one than when a loop first started: a restore, a copy, or the work of `pg_upgrade`. A hint
   * only, because a snapshot of the volume keeps both.
   */
  readonly isMoved: boolean
}

/** Advice for a copy. */
const COPY_ADVICE =
  'on a copy: stop the loops, business-api-kit deliveries cancel --pending, then business-api-kit adopt'

/** Advice for an unnamed database that has moved. */
export const MOVED_ADVICE: string = `${COPY_ADVICE}; after a restore or an upgrade of production: business-api-kit adopt`

/** Describes the installation of a database, to follow "the database". @param found null: no loop has started yet */
export function describeInstallation(found: Installation | null): string {
  if (found === null) return 'has no name, and no delivery loop has started on it'
  const whose = found.name === null ? 'has no name' : `belongs to the installation '${found.name}'`
  return `${whose}, and ${found.isMoved ? 'was restored, copied or upgraded since its loops started' : 'is where its loops started'}`
}

/** Why a loop waits on a database, and how to go on. */
export interface Hold {
  /** To follow "because". */
  readonly reason: string
  readonly advice: string
}

/** Compares a database's installation with a loop's. @returns null if the loop works there */
export function holdOf(found: Installation, own: string | null): Hold | null {
  const { name, isMoved } = found
  if (name === own || (name === null && !isMoved)) return null
  const its = own === null ? 'the loop has no name' : `the loop belongs to '${own}'`
  const set = `set BUSINESS_API_INSTALLATION or option 'installation' to ${name}; `
  return {
    reason: `the database ${describeInstallation(found)}; ${its}`,
    advice: name === null ? MOVED_ADVICE : set + COPY_ADVICE,
  }
}

/** The slice of a store for the installation. Missing in a store whose data cannot be copied. */
export interface InstallationStore {
  /**
   * Reads the installation. A database without a name gets the given name, unless it has moved. @param name of the loop; null if
   * unnamed
   */
  check(name: string | null): Promise<Installation>
}
