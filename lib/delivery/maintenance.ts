import { createWakeUp, type WakeUp } from './wake-up.ts'

/**
 * Runs one part of a task. Must not take too long.
 *
 * @returns `true` if the task is complete, or the milliseconds until the next part can start
 */
export type MaintenanceTask = () => Promise<boolean | number>

/** Runs tasks in addition to the deliveries of a loop. */
export interface Maintenance {
  /** Runs each task every minute until `stop` is called. */
  keepRunning(): Promise<void>
  /**
   * Runs each task until it's complete or `stop` is called, with up to 100 parts.
   *
   * @throws the first error of a task, after all tasks were run. Other errors are passed to `onError`
   */
  runOnce(): Promise<void>
  stop(): void
}

const EVERY_MS = 60_000
/** Pause between the parts of a long task, in milliseconds, so that deliveries go first. A part can ask for more. */
const PAUSE_MS = 250
/** Maximum number of parts per task in `runOnce`. The scheduler has to wait for it and will call it again anyway. */
const PARTS_MAX = 100

/**
 * Creates the maintenance of a loop.
 *
 * @param onError called with errors that aren't thrown by `runOnce`
 */
export function createMaintenance(
  tasks: readonly MaintenanceTask[],
  onError: (error: unknown) => void,
): Maintenance {
  let stop = (): void => {}

  return {
    async keepRunning() {
      // Each run has its own flag, so that a task still hanging after `stop` doesn't continue in the next run.
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
        // One failing task must not prevent the others from running.
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
 * Runs a task every minute. Long tasks are run part by part.
 *
 * @param wakeUp ends the wait between runs
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
