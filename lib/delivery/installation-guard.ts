import { BusinessApiError, INVALID_STATE } from '../base/errors.ts'
import { COPY_ADVICE, type InstallationStore, MOVED_ADVICE } from '../webhooks/installation.ts'
import type { Notice } from '../webhooks/notices.ts'
import type { MaintenanceTask } from './maintenance.ts'

/** Keeps a loop from working on the database of another installation. */
export interface InstallationGuard {
  /** The installation that the database belongs to, while the loop waits for that reason; empty: one without a name; otherwise null. */
  readonly heldBy: string | null
  /**
   * Tells whether the loop may work: asks the store every ten seconds.
   *
   * @throws the error of the store
   */
  mayWork(): Promise<boolean>
  /** @throws `BusinessApiError` with code `invalid_state` while the loop may not work; the error of the store */
  demand(): Promise<void>
  /** Returns the task, which does nothing while the loop may not work. */
  guard(task: MaintenanceTask): MaintenanceTask
}

/** Milliseconds between two checks: a loop goes on so soon after `adopt`, and stops so soon on a database that was changed under it. */
const CHECK_EVERY_MS = 10_000

/**
 * Creates the guard of a loop.
 *
 * @param store undefined for a store that cannot be copied
 * @param name of the loop's installation; null: without a name
 */
export function createInstallationGuard(
  store: InstallationStore | undefined,
  name: string | null,
  notify: (notices: readonly Notice[]) => void,
): InstallationGuard {
  let checkedAt = Number.NEGATIVE_INFINITY
  let heldBy: string | null = null
  let hasHinted = false

  async function mayWork(): Promise<boolean> {
    if (store === undefined) return true
    if (performance.now() - checkedAt < CHECK_EVERY_MS) return heldBy === null
    const found = await store.check(name)
    checkedAt = performance.now()
    const wasHeldBy = heldBy
    // The store has given a database without a name the loop's, unless the database has moved.
    heldBy = found.name === name ? null : (found.name ?? UNNAMED)
    if (heldBy !== null && heldBy !== wasHeldBy) {
      const of = { installation: name, databaseInstallation: found.name }
      notify([{ kind: 'installation_differs', ...of, advice: adviceFor(heldBy) }])
    }
    if (heldBy === null && found.name === null && found.isMoved && !hasHinted) {
      hasHinted = true
      notify([{ kind: 'database_moved', advice: MOVED_ADVICE }])
    }
    return heldBy === null
  }

  return {
    get heldBy() {
      return heldBy
    },
    mayWork,
    async demand() {
      if (await mayWork()) return
      const its = name === null ? 'this loop has no name' : `this loop is of '${name}'`
      const whose =
        heldBy === UNNAMED
          ? 'has no name, and was restored, copied or upgraded since its loops started'
          : `belongs to the installation '${heldBy}'`
      const message = `Cannot deliver because the database ${whose}, and ${its}: ${adviceFor(heldBy ?? UNNAMED)}`
      throw new BusinessApiError(INVALID_STATE, message)
    },
    guard: (task) => async () => !(await mayWork()) || task(),
  }
}

/** No name of an installation. */
const UNNAMED = ''

function adviceFor(databaseInstallation: string): string {
  if (databaseInstallation === UNNAMED) return MOVED_ADVICE
  return `set BUSINESS_API_INSTALLATION or option 'installation' to ${databaseInstallation}; ${COPY_ADVICE}`
}
