import { createWakeUp, type WakeUp } from './wake-up.ts'

/**
 * Runs one batch of a task. Must be short.
 *
 * @returns `true` if the task is complete, otherwise the number of milliseconds until the next batch can start
 */
export type MaintenanceTask = () => Promise<boolean | number>

/** Runs background tasks alongside a loop's deliveries. */
export interface Maintenance {
  /** Runs each task every minute until `stop` is called. */
  keepRunning(): Promise<void>
  /**
   * Runs each task until it's complete or `stop` is called, for up to 100 batches each.
   *
   * @throws the first task's error, once all tasks have run. Other errors are passed to `onError`
   */
  runOnce(): Promise<void>
  stop(): void
}

const EVERY_MS = 60_000
/** Minimum pause between batches in milliseconds, to let deliveries go first. A task can ask for a longer one. */
const PAUSE_MS = 250
/** Maximum number of batches per task in `runOnce`. The scheduler is waiting, and will call again anyway. */
const PARTS_MAX = 100

/**
 * Creates a loop's maintenance.
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
      // One flag per run, so a task that was still hanging after `stop` doesn't continue as part of the next run.
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
        // A failing task must not keep the others from running.
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
 * Runs a task every minute, one batch at a time.
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
