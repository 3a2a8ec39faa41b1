// A restored backup or staging copy still has production's pending deliveries. To prevent duplicates, the host can name
// an installation. The name is stored in the database, and delivery loops with a different name wait.

/** The installation that a database belongs to. */
export interface Installation {
  /** `null` if no named loop has ever started on the database. */
  readonly name: string | null
  /**
   * `true` if this isn't the server or database on which a loop first started, for example after a restore, a copy or
   * `pg_upgrade`. This is best-effort because volume snapshots can't be detected.
   */
  readonly isMoved: boolean
}

const COPY_ADVICE =
  'on a copy: stop the loops, business-api-kit deliveries cancel --pending, then business-api-kit adopt'

/** How to proceed if an unnamed database has moved. */
export const MOVED_ADVICE: string = `${COPY_ADVICE}; after a restore or an upgrade of production: business-api-kit adopt`

/**
 * Describes a database's installation, for use after "the database".
 *
 * @param found `null` if no loop has started yet
 */
export function describeInstallation(found: Installation | null): string {
  if (found === null) return 'has no name, and no delivery loop has started on it'
  const whose = found.name === null ? 'has no name' : `belongs to the installation '${found.name}'`
  return `${whose}, and ${found.isMoved ? 'was restored, copied or upgraded since its loops started' : 'is where its loops started'}`
}

/** Why a loop is waiting, and what to do about it. */
export interface Hold {
  /** The reason, for use after "because". */
  readonly reason: string
  readonly advice: string
}

/** Returns why a loop can't use a database, or `null` if there's no reason not to. */
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

/** The installation methods of a store. Missing if the store's data can't be copied. */
export interface InstallationStore {
  /**
   * Reads the installation. Names the database after the loop if it has no name and hasn't moved.
   *
   * @param name the loop's name, or `null` if it has none
   */
  check(name: string | null): Promise<Installation>
}
