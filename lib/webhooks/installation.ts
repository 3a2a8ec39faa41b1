// A restored backup or staging copy contains the pending deliveries of production. To keep them from being sent again,
// the host can name its installation. The name is stored in the database, and delivery loops with another name wait.

/** The installation that a database belongs to. */
export interface Installation {
  /** `null` if no loop with a name has been started on the database. */
  readonly name: string | null
  /**
   * `true` if the server or database isn't the one on which a loop was first started. This happens after a restore, a
   * copy or `pg_upgrade`. It's only a hint, since snapshots of the volume aren't detected.
   */
  readonly isMoved: boolean
}

const COPY_ADVICE =
  'on a copy: stop the loops, business-api-kit deliveries cancel --pending, then business-api-kit adopt'

/** What to do if an unnamed database has moved. */
export const MOVED_ADVICE: string = `${COPY_ADVICE}; after a restore or an upgrade of production: business-api-kit adopt`

/**
 * Describes the installation of a database, for use after "the database".
 *
 * @param found `null` if no loop has been started yet
 */
export function describeInstallation(found: Installation | null): string {
  if (found === null) return 'has no name, and no delivery loop has started on it'
  const whose = found.name === null ? 'has no name' : `belongs to the installation '${found.name}'`
  return `${whose}, and ${found.isMoved ? 'was restored, copied or upgraded since its loops started' : 'is where its loops started'}`
}

/** Why a loop is waiting and how to resume it. */
export interface Hold {
  /** The reason, for use after "because". */
  readonly reason: string
  readonly advice: string
}

/** Compares the installations of a database and a loop. @returns why the loop has to wait, or `null` if it doesn't */
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

/** The part of a store that handles the installation. Absent in stores whose data can't be copied. */
export interface InstallationStore {
  /**
   * Reads the installation. If the database doesn't have a name and hasn't moved, it's given the name.
   *
   * @param name the loop's name, or `null` if it has none
   */
  check(name: string | null): Promise<Installation>
}
