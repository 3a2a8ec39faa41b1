import { BusinessApiError, INVALID_STATE } from '../base/errors.ts'
import { type Hold, holdOf, type InstallationStore, MOVED_ADVICE } from '../webhooks/installation.ts'
import type { Notice } from '../webhooks/notices.ts'
import type { MaintenanceTask } from './maintenance.ts'

/** Keeps a loop away from another installation's database. */
export interface InstallationGuard {
  /** Why the loop is waiting, or `null` if it isn't. */
  readonly heldBecause: string | null
  /**
   * Returns whether the loop may work. Asks the store at most once every ten seconds.
   *
   * @throws any store errors
   */
  mayWork(): Promise<boolean>
  /** @throws `BusinessApiError` with code `invalid_state` if the loop may not work, or any store errors */
  demand(): Promise<void>
  /** Wraps a task to make it a no-op while the loop may not work. */
  guard(task: MaintenanceTask): MaintenanceTask
}

/** Check interval in milliseconds. Resuming after `adopt` or noticing another database can take this long. */
const CHECK_EVERY_MS = 10_000

/**
 * Creates a loop's guard.
 *
 * @param store `undefined` if the store's data can't be copied
 * @param name the loop's installation, or `null` if it has none
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
