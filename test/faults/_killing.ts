import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Deliverer, type Scene, setScene } from './_deliveries.ts'
import { countOf, createPublished, createPublisher, publishSome } from './_publishers.ts'
import { assertDelivered, describeTally, untilDelivered } from './_tally.ts'

/** The least number of published events, and the least number of killed deliverers meanwhile. */
export interface Killing {
  readonly events: number
  readonly kills: number
  /** Between two rounds of publishing. */
  readonly publishEveryMs: number
  /** From the start of a deliverer to the next kill, on average. */
  readonly killEveryMs: number
  /** So short that the work of the dead is taken up soon; a busy machine must not need as long for an attempt. */
  readonly leaseMs: number
  /** Processes that deliver at once. Default 2. */
  readonly deliverers?: number
  /** A migrated and empty database. Default a new database. */
  readonly databaseUrl?: string
}

const ORGANIZATIONS = ['org_one', 'org_two', 'org_three', 'org_four']

/** More attempts than any delivery will be killed in. */
const RETRY_DELAYS_MS = Array.from({ length: 11 }, () => 200)

/** More kills than are ever needed to meet an attempt. */
const KILLS_MAX = 50

/**
 * Publishes while deliverers deliver and are killed (SIGKILL) at random, each started again at once. Then every committed
 * event must arrive, and nothing else, and never from two deliverers at once.
 *
 * @returns a line of what happened
 */
export async function assertSurvivesKills(t: TestContext, killing: Killing): Promise<string> {
  const scene = await setScene(t, killing.databaseUrl)
  const published = createPublished()
  const publishers = await Promise.all(ORGANIZATIONS.map((id) => createPublisher(scene, id, published)))
  for (const organizationId of ORGANIZATIONS) await scene.subscribe(organizationId, 'answering')
  // Slow attempts, so that a kill meets attempts in flight.
  await scene.subscribe('org_one', 'slow?ms=150')
  await scene.subscribe('org_two', 'failing?times=1')

  let kills = 0
  let isOver = false
  async function publishAll(): Promise<void> {
    const isEnough = async (): Promise<boolean> =>
      countOf(published) >= killing.events &&
      kills >= killing.kills &&
      // A few kills may all come between two attempts.
      (kills >= KILLS_MAX || (await hasInterrupted(scene)))
    while (!(await isEnough())) {
      await Promise.all(publishers.map(publishSome))
      await sleep(killing.publishEveryMs)
    }
  }
  async function killAll(): Promise<void> {
    const deliverers = await Promise.all(
      Array.from({ length: killing.deliverers ?? 2 }, () => startDeliverer(scene, killing.leaseMs)),
    )
    for (;;) {
      await sleep(randomInt(2 * killing.killEveryMs))
      if (isOver) return
      await killOne(scene, deliverers, killing.leaseMs)
      kills++
    }
  }
  const publishing = publishAll().finally(() => {
    isOver = true
  })
  await Promise.all([publishing, killAll()])
  const drainedMs = await untilDelivered(scene, 30_000)

  const tally = await assertDelivered(scene, published)
  assert.ok(tally.interrupted > 0, 'no kill has met an attempt')
  assert.equal((await scene.receiver.counts()).overlaps, 0, 'no event was sent by two deliverers at once')
  return (
    `${kills} kills, ${describeTally(tally)}, ${published.rolledBack.size} events rolled back, ` +
    `all delivered ${Math.round(drainedMs)} ms after the last was published`
  )
}

/** True once the log has an attempt that a kill ended. */
async function hasInterrupted({ sql }: Scene): Promise<boolean> {
  const rows = await sql`select 1 from business_api.delivery_attempts where error = 'interrupted' limit 1`
  return rows.length > 0
}

function startDeliverer(scene: Scene, leaseMs: number): Promise<Deliverer> {
  return scene.startDeliverer({ loop: { leaseMs, retryDelaysMs: RETRY_DELAYS_MS } })
}

/** Kills a deliverer and starts another deliverer instead. */
async function killOne(scene: Scene, deliverers: Deliverer[], leaseMs: number): Promise<void> {
  const place = randomInt(deliverers.length)
  const victim = deliverers[place]
  victim?.signal('SIGKILL')
  await victim?.ended
  victim?.assertUnharmed()
  deliverers[place] = await startDeliverer(scene, leaseMs)
}
