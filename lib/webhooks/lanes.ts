import type { ClaimedDelivery, EndpointRef, Room } from '../deliveries.ts'
import type { Verdict } from './verdict.ts'

// Fair dispatch. Each endpoint that a process deals with has a lane: what was claimed for it and waits here, and how many
// attempts of it are in flight. What a lane may hold is what the next claim asks for, so that a process never claims what
// it could not send soon.

/** A claimed delivery on its way through this process. */
export interface Claimed extends ClaimedDelivery {
  readonly token: string
  /** On the monotonic clock, in milliseconds. */
  readonly leaseEndsAt: number
}

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

interface Lane {
  readonly organizationId: string
  readonly endpointId: string
  readonly queue: Claimed[]
  inFlight: number
  /** Attempts that may be in flight at once: halved when the endpoint is slow, one more with each success. */
  cap: number
  /** Its last attempt succeeded at once: what is claimed ahead for it does not wait for long. */
  isQuick: boolean
  /** It can take less than a new one. */
  isSlow: boolean
  /** It has answered a first attempt as it should: until then nobody knows how long it takes. */
  isProven: boolean
  /** When an attempt has ended last, or begun where none was in flight. */
  progressAt: number
  isQueued: boolean
  /** What the last claim could bring, and what it brought: if it was all, there may be more. */
  room: number
  claimed: number
  blockedUntil: number
  restsUntil: number
  usedAt: number
}

/** An organization with deliveries here. */
interface Share {
  /** In flight or waiting. */
  count: number
  /** As of a lane. */
  room: number
  claimed: number
}

const CAP_START = 4
const CAP_MAX = 32
const QUICK_MS = 250
/** Of all slots, what one organization may take, and what endpoints may take together whose last attempts were slow. */
const ORGANIZATION_SHARE = 1 / 4
const SLOW_SHARE = 1 / 2
/** What those may take together that nobody knows yet, and both kinds: the rest is for those that are known to answer. */
const UNPROVEN_SHARE = 1 / 2
const DOUBTFUL_SHARE = 3 / 4
/** An endpoint that has kept all its attempts for so long is slow, whatever becomes of them. */
const SLOW_AFTER_MS = 1000
/** Of what one organization may take, what one endpoint may: one that is dead does not silence the organization's others. */
const ENDPOINT_SHARE = 1 / 2
/** A claim of more takes so long that what has just been published would wait for it. */
const CLAIM_MAX = 64
/** Of one endpoint: what comes in one piece is sent in one piece, and whoever comes after waits for all of it. */
const QUANTUM = 16
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
  const organizationRoom = Math.max(1, Math.ceil(concurrency * ORGANIZATION_SHARE))
  const slowShare = Math.max(1, Math.floor(concurrency * SLOW_SHARE))
  const doubtfulShare = Math.max(1, Math.floor(concurrency * DOUBTFUL_SHARE))
  const maxCap = Math.min(CAP_MAX, Math.max(1, Math.floor(organizationRoom * ENDPOINT_SHARE)))
  const startCap = Math.min(CAP_START, maxCap)
  const unprovenShare = Math.max(startCap, Math.floor(concurrency * UNPROVEN_SHARE))
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
    const lane: Lane = {
      organizationId,
      endpointId,
      queue: [],
      inFlight: 0,
      cap: startCap,
      isQuick: false,
      isSlow: false,
      isProven: false,
      progressAt: 0,
      isQueued: false,
      room: startCap,
      claimed: 0,
      blockedUntil: 0,
      restsUntil: 0,
      usedAt: performance.now(),
    }
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
    const share = organizations.get(organizationId) ?? { count: 0, room: organizationRoom, claimed: 0 }
    organizations.set(organizationId, share)
    return share
  }

  function leave(organizationId: string): void {
    const share = shareOf(organizationId)
    share.count--
    if (share.count === 0) organizations.delete(organizationId)
  }

  function release(lane: Lane): void {
    if (lane.inFlight + lane.queue.length === 0) busy.delete(lane)
  }

  function roomOf(lane: Lane): number {
    if (Math.max(lane.blockedUntil, lane.restsUntil) > performance.now()) return 0
    const ahead = lane.isQuick ? lane.cap : 0
    return Math.min(QUANTUM, Math.max(0, lane.cap + ahead - lane.inFlight - lane.queue.length))
  }

  function countOf(some: Iterable<Lane>): number {
    let count = 0
    for (const lane of some) count += lane.inFlight + lane.queue.length
    return count
  }

  /** Those whose attempts hang need not be waited for to be known as slow. */
  function findSlow(): void {
    const slowSince = performance.now() - SLOW_AFTER_MS
    for (const lane of busy) {
      if (lane.inFlight === 0 || lane.progressAt > slowSince) continue
      lane.isSlow = true
      slow.add(lane)
    }
  }

  /** What is left for those that nobody knows yet. */
  function unprovenRoom(): number {
    const unproven = countOf([...busy].filter((lane) => !lane.isProven && !slow.has(lane)))
    return Math.max(0, Math.min(unprovenShare, doubtfulShare - countOf(slow)) - unproven)
  }

  /** What is left for the slow ones, in turn: those that get some now are asked last by the next claim. */
  function shareSlowRoom(): Map<Lane, number> {
    const rooms = new Map<Lane, number>()
    let left = slowShare - countOf(slow)
    for (const lane of slow) {
      const room = Math.max(0, Math.min(roomOf(lane), left))
      rooms.set(lane, room)
      left -= room
    }
    for (const [lane, room] of rooms) {
      if (room > 0 && slow.delete(lane)) slow.add(lane)
    }
    return rooms
  }

  function learn(lane: Lane, load: Verdict['load']): void {
    const half = Math.floor(lane.cap / 2)
    if (load === 'more') lane.isProven = true
    if (load === 'more') lane.cap = Math.min(maxCap, lane.cap + 1)
    if (load === 'less') lane.cap = Math.max(1, half)
    if (load === 'more' && lane.cap >= startCap) lane.isSlow = false
    // By what is below 1, too: where one attempt is all that any may have, it can be slow all the same.
    if (load === 'less' && half < startCap) lane.isSlow = true
  }

  function isSlow(lane: Lane): boolean {
    return lane.isSlow || lane.blockedUntil > performance.now()
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
      const slowRooms = shareSlowRoom()
      const unproven = unprovenRoom()
      const unknown = Math.min(startCap, unproven)
      isShort = unknown < startCap
      const endpoints: Record<string, number> = {}
      for (const lane of lanes.values()) {
        const own = busy.has(lane) || warm.has(lane) ? roomOf(lane) : startCap
        lane.claimed = 0
        lane.room = slowRooms.get(lane) ?? (lane.isProven ? own : Math.min(own, unproven))
        if (lane.room !== unknown) endpoints[lane.endpointId] = lane.room
      }
      const now = performance.now()
      for (const lane of warm) if (lane.restsUntil <= now) warm.delete(lane)
      for (const share of organizations.values()) {
        share.claimed = 0
        share.room = Math.max(0, organizationRoom - share.count)
      }
      limit = Math.min(CLAIM_MAX, concurrency - inFlight - waiting)
      return {
        limit,
        room: {
          endpoint: unknown,
          organization: organizationRoom,
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
      lane.isQuick = load === 'more' && durationMs < QUICK_MS
      learn(lane, load)
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
