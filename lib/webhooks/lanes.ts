import type { EndpointRef, Room } from '../deliveries.ts'
import { type Claimed, createLane, isHanging, isSlow, type Lane, learn, roomOf, sizeOf } from './lane.ts'
import { createShares } from './shares.ts'
import type { Verdict } from './verdict.ts'

// Fair dispatch. Each endpoint that a process deals with has a lane: what was claimed for it and waits here, and how many
// attempts of it are in flight. What a lane may hold is what the next claim asks for, so that a process never claims what
// it could not send soon.

/** The attempts of this process, by endpoint and organization. */
export interface Lanes {
  readonly inFlight: number
  readonly waiting: number
  /** How much the next claim may bring, in all and of whom. */
  room(): { readonly limit: number; readonly room: Room }
  add(delivery: Claimed): void
  /** The next delivery to attempt, the lanes in turn; it counts as in flight. Undefined when none may go now. */
  next(): Claimed | undefined
  /**
   * An attempt has ended.
   *
   * @param durationMs tells quick endpoints, which are worth claiming ahead for
   * @returns whether more should be claimed now
   */
  end(delivery: Claimed, load: Verdict['load'], durationMs: number): boolean
  /**
   * Nothing is claimed for an endpoint for a while.
   *
   * @returns whether it was not blocked before
   */
  block(endpoint: EndpointRef, ms: number): boolean
  /**
   * Nothing is claimed for a while for the endpoints of which the last claim has brought all that it could, unless they
   * are the only ones there are.
   *
   * @returns whether there are any
   */
  rest(ms: number): boolean
  /** Takes out all that waits. */
  drain(): readonly Claimed[]
  /** Forgets the lanes that have long been idle. */
  sweep(): void
}

/** An organization with deliveries here. */
interface Share {
  /** In flight or waiting. */
  count: number
  /** As of a lane. */
  room: number
  claimed: number
}

/** A claim of more takes so long that what has just been published would wait for it. */
const CLAIM_MAX = 64
/** For how long after the last delivery of an endpoint without a backlog those with one give way. */
const GIVE_WAY_MS = 10_000
/** After so long nothing that was learnt about an endpoint is worth keeping. */
const FORGET_AFTER_MS = 10 * 60_000

/** @param concurrency attempts in flight at once, of all endpoints */
export function createLanes(concurrency: number): Lanes {
  const lanes = new Map<string, Lane>()
  /** Those with something in flight or waiting. */
  const busy = new Set<Lane>()
  /** Those that can take less than a new one. */
  const slow = new Set<Lane>()
  /** Those that are idle but may have more to come. */
  const warm = new Set<Lane>()
  /** Those that may go, in turn. */
  const ready: Lane[] = []
  const organizations = new Map<string, Share>()
  const shares = createShares(concurrency)
  const { caps } = shares
  let inFlight = 0
  let waiting = 0
  /** Of the last claim, in all. */
  let limit = 0
  /** The last claim could bring nothing, or too little, of those that nobody knows yet. */
  let isShort = false
  /** When something was claimed last for an endpoint that has no backlog. */
  let othersAt = Number.NEGATIVE_INFINITY

  function laneOf({ organizationId, endpointId }: EndpointRef): Lane {
    const known = lanes.get(endpointId)
    if (known) return known
    const lane = createLane({ organizationId, endpointId }, caps)
    lanes.set(endpointId, lane)
    return lane
  }

  /** Puts a lane in line if its next delivery may go. */
  function line(lane: Lane): void {
    if (lane.isQueued || lane.queue.length === 0 || lane.inFlight >= lane.cap) return
    lane.isQueued = true
    ready.push(lane)
  }

  function shareOf(organizationId: string): Share {
    const share = organizations.get(organizationId) ?? { count: 0, room: shares.organization, claimed: 0 }
    organizations.set(organizationId, share)
    return share
  }

  function leave(organizationId: string): void {
    const share = shareOf(organizationId)
    share.count--
    if (share.count === 0) organizations.delete(organizationId)
  }

  function release(lane: Lane): void {
    if (sizeOf(lane) === 0) busy.delete(lane)
  }

  /** Those whose attempts hang need not be waited for to be known as slow. */
  function findSlow(): void {
    for (const lane of busy) {
      if (!isHanging(lane)) continue
      lane.isSlow = true
      slow.add(lane)
    }
  }

  return {
    get inFlight() {
      return inFlight
    },
    get waiting() {
      return waiting
    },

    room() {
      findSlow()
      const slowRooms = shares.slowRooms(slow)
      const unproven = shares.unprovenRoom(busy, slow)
      const unknown = Math.min(caps.start, unproven)
      isShort = unknown < caps.start
      const endpoints: Record<string, number> = {}
      for (const lane of lanes.values()) {
        const own = busy.has(lane) || warm.has(lane) ? roomOf(lane) : caps.start
        lane.claimed = 0
        lane.room = slowRooms.get(lane) ?? (lane.isProven ? own : Math.min(own, unproven))
        if (lane.room !== unknown) endpoints[lane.endpointId] = lane.room
      }
      const now = performance.now()
      for (const lane of warm) if (lane.restsUntil <= now) warm.delete(lane)
      for (const share of organizations.values()) {
        share.claimed = 0
        share.room = Math.max(0, shares.organization - share.count)
      }
      limit = Math.min(CLAIM_MAX, concurrency - inFlight - waiting)
      return {
        limit,
        room: {
          endpoint: unknown,
          organization: shares.organization,
          endpoints,
          organizations: Object.fromEntries([...organizations].map(([id, { room }]) => [id, room] as const)),
        },
      }
    },

    rest(ms) {
      const now = performance.now()
      const backlogged: Lane[] = []
      let claimed = 0
      for (const lane of busy) claimed += lane.claimed
      for (const lane of busy) {
        const share = shareOf(lane.organizationId)
        const isCut = claimed >= limit || share.claimed >= share.room
        if (lane.room > 0 && (lane.claimed >= lane.room || isCut)) backlogged.push(lane)
        else if (lane.claimed > 0) othersAt = now
      }
      // Who has the process to itself need not give way.
      if (now - othersAt > GIVE_WAY_MS) return false
      for (const lane of backlogged) lane.restsUntil = now + ms
      return backlogged.length > 0
    },

    add(delivery) {
      const lane = laneOf(delivery)
      const share = shareOf(lane.organizationId)
      lane.queue.push(delivery)
      lane.usedAt = performance.now()
      lane.claimed++
      share.claimed++
      share.count++
      waiting++
      busy.add(lane)
      line(lane)
    },

    next() {
      if (inFlight >= concurrency) return undefined
      for (let lane = ready.shift(); lane; lane = ready.shift()) {
        lane.isQueued = false
        // Its cap may have been halved since it got in line.
        const delivery = lane.inFlight < lane.cap ? lane.queue.shift() : undefined
        if (!delivery) continue
        if (lane.inFlight === 0) lane.progressAt = performance.now()
        lane.inFlight++
        inFlight++
        waiting--
        line(lane)
        return delivery
      }
      return undefined
    },

    end(delivery, load, durationMs) {
      const lane = laneOf(delivery)
      lane.inFlight--
      inFlight--
      const share = shareOf(lane.organizationId)
      leave(lane.organizationId)
      lane.usedAt = performance.now()
      lane.progressAt = lane.usedAt
      learn(lane, load, durationMs, caps)
      if (isSlow(lane)) slow.add(lane)
      else slow.delete(lane)
      line(lane)
      release(lane)
      const isBacklogged = lane.claimed >= lane.room || share.claimed >= share.room
      if (isBacklogged) warm.add(lane)
      return (isBacklogged && lane.queue.length <= lane.cap / 2) || isShort
    },

    block(endpoint, ms) {
      const lane = laneOf(endpoint)
      const isNew = lane.blockedUntil <= performance.now()
      lane.blockedUntil = performance.now() + ms
      lane.usedAt = lane.blockedUntil
      slow.add(lane)
      return isNew
    },

    drain() {
      const drained: Claimed[] = []
      for (const lane of [...busy]) {
        for (const delivery of lane.queue.splice(0)) {
          leave(lane.organizationId)
          drained.push(delivery)
        }
        lane.isQueued = false
        release(lane)
      }
      ready.length = 0
      waiting = 0
      return drained
    },

    sweep() {
      const idleSince = performance.now() - FORGET_AFTER_MS
      for (const [id, lane] of lanes) {
        if (busy.has(lane) || lane.usedAt > idleSince) continue
        lanes.delete(id)
        slow.delete(lane)
      }
    },
  }
}
