import { createWakeUp, type WakeUp } from './wake-up.ts'

/**
 * A bounded part of longer work.
 *
 * @returns true when all of the work is done, or the milliseconds until the next part may begin
 */
export type MaintenanceTask = () => Promise<boolean | number>

/** The tasks of a loop beside the deliveries. */
export interface Maintenance {
  /** Runs each task every minute, until `stop`. */
  keepRunning(): Promise<void>
  /**
   * Runs each task until the work is done or `stop`, 100 parts at most.
   *
   * @throws the first error of a task, after every task had its turn; further errors go to `onError`
   */
  runOnce(): Promise<void>
  stop(): void
}

const EVERY_MS = 60_000
/** Pause between two parts of a long task, so deliveries go first. A part can ask for a longer pause. */
const PAUSE_MS = 250
/** Parts of a task in `runOnce` at most, because a scheduler waits for the end and runs the loop again. */
const PARTS_MAX = 100

/**
 * Creates the maintenance of a loop.
 *
 * @param onError receives every error that `runOnce` does not throw
 */
export function createMaintenance(
  tasks: readonly MaintenanceTask[],
  onError: (error: unknown) => void,
): Maintenance {
  let stop = (): void => {}

  return {
    async keepRunning() {
      // Each run has a flag: a task that hangs beyond the stop must not go on in the next run.
      let isStopped = false
      const scheduled = tasks.map((task) => ({ task, wakeUp: createWakeUp() }))
      stop = () => {
        isStopped = true
        for (const { wakeUp } of scheduled) wakeUp.wake()
      }
      await Promise.all(
        scheduled.map(({ task, wakeUp }) => repeatTask(task, wakeUp, () => isStopped, onError)),
      )
    },

    async runOnce() {
      let isStopped = false
      const wakeUp = createWakeUp()
      stop = () => {
        isStopped = true
        wakeUp.wake()
      }
      const failures: unknown[] = []
      for (const task of tasks) {
        // A failing task must not keep the other tasks from running.
        await runParts(task, wakeUp, () => isStopped).catch((error) => failures.push(error))
      }
      for (const failure of failures.slice(1)) onError(failure)
      if (failures.length > 0) throw failures[0]
    },

    stop: () => stop(),
  }
}

async function runParts(task: MaintenanceTask, wakeUp: WakeUp, isStopped: () => boolean): Promise<void> {
  for (let parts = 1; parts <= PARTS_MAX && !isStopped(); parts++) {
    const answer = await task()
    if (answer === true) break
    if (typeof answer === 'number' && parts < PARTS_MAX && !isStopped()) await wakeUp.wait(answer)
  }
}

/**
 * Runs a task every minute, and long work part by part.
 *
 * @param wakeUp ends the wait between two runs
 */
export async function repeatTask(
  task: MaintenanceTask,
  wakeUp: WakeUp,
  isStopped: () => boolean,
  onError: (error: unknown) => void,
): Promise<void> {
  while (!isStopped()) {
    const answer = await task().catch((error) => {
      onError(error)
      return true
    })
    const pauseMs = typeof answer === 'number' ? answer : PAUSE_MS
    if (!isStopped()) await wakeUp.wait(answer === true ? EVERY_MS : pauseMs)
  }
}
