import { type Alarm, createAlarm } from './alarm.ts'

/** A bounded part of some work. @returns whether nothing of it is left to do */
export type Chore = () => Promise<boolean>

/** What a loop does beside delivering. */
export interface Chores {
  /** Does each of them every minute, until they are ended. */
  keepDoing(): Promise<void>
  /** Does each of them until nothing is left or they are ended, so many parts at most. @throws what the first one throws that fails, once all were done */
  doOnce(): Promise<void>
  end(): void
}

const EVERY_MS = 60_000
/** Between two parts of a long chore: the deliveries go first. */
const PAUSE_MS = 250
/** Of one chore in `doOnce`: whoever runs it on a schedule waits for it, and will come again. */
const PARTS_MAX = 100

/** @param onError hears what a chore throws that is done every minute */
export function createChores(chores: readonly Chore[], onError: (error: unknown) => void): Chores {
  let end = (): void => {}

  return {
    async keepDoing() {
      // Of this time only: a chore that hangs when it is ended must not go on with the next time.
      let isEnded = false
      const kept = chores.map((chore) => ({ chore, alarm: createAlarm() }))
      end = () => {
        isEnded = true
        for (const { alarm } of kept) alarm.ring()
      }
      await Promise.all(kept.map(({ chore, alarm }) => keepDoing(chore, alarm, () => isEnded, onError)))
    },

    async doOnce() {
      let isEnded = false
      end = () => {
        isEnded = true
      }
      const failures: unknown[] = []
      for (const chore of chores) {
        // One that fails must not keep the others from being done, run after run.
        await doParts(chore, () => isEnded).catch((error) => failures.push(error))
      }
      if (failures.length > 0) throw failures[0]
    },

    end: () => end(),
  }
}

async function doParts(chore: Chore, isEnded: () => boolean): Promise<void> {
  for (let parts = 0; parts < PARTS_MAX && !isEnded(); parts++) if (await chore()) break
}

/**
 * Does a chore every minute, and a long one part by part.
 *
 * @param alarm rung to end
 */
export async function keepDoing(
  chore: Chore,
  alarm: Alarm,
  isEnded: () => boolean,
  onError: (error: unknown) => void,
): Promise<void> {
  while (!isEnded()) {
    const isDone = await chore().catch((error) => {
      onError(error)
      return true
    })
    if (!isEnded()) await alarm.wait(isDone ? EVERY_MS : PAUSE_MS)
  }
}
