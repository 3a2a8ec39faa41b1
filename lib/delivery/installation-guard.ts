import { BusinessApiError, INVALID_STATE } from '../base/errors.ts'
import { type Hold, holdOf, type InstallationStore, MOVED_ADVICE } from '../webhooks/installation.ts'
import type { Notice } from '../webhooks/notices.ts'
import type { MaintenanceTask } from './maintenance.ts'

/** Keeps a loop from working on the database of another installation. */
export interface InstallationGuard {
  /** Why the loop waits; null while it may work. */
  readonly heldBecause: string | null
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

/** Interval between checks, in ms: how soon a loop continues after `adopt`, or stops on a database that was swapped. */
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
  let hold: Hold | null = null
  let noticed: string | null = null

  async function findHold(): Promise<Hold | null> {
    if (store === undefined || performance.now() - checkedAt < CHECK_EVERY_MS) return hold
    const found = await store.check(name)
    checkedAt = performance.now()
    hold = holdOf(found, name)
    const advice = hold?.advice ?? (found.name === null && found.isMoved ? MOVED_ADVICE : null)
    const reason = hold?.reason ?? advice
    if (advice !== null && reason !== noticed) {
      const of = { installation: name, databaseInstallation: found.name, advice }
      notify([{ kind: 'installation_differs', isWaiting: hold !== null, ...of }])
    }
    noticed = reason
    return hold
  }

  const mayWork = async (): Promise<boolean> => (await findHold()) === null

  return {
    get heldBecause() {
      return hold?.reason ?? null
    },
    mayWork,
    async demand() {
      const found = await findHold()
      if (found === null) return
      throw new BusinessApiError(INVALID_STATE, `Cannot deliver because ${found.reason}: ${found.advice}`)
    },
    guard: (task) => async () => !(await mayWork()) || task(),
  }
}
