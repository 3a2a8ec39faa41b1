import { type Caps, type Lane, roomOf, sizeOf } from './lane.ts'

// How the slots of a process are shared, so that nobody takes them all: not one endpoint, not one organization, and not
// those together that are slow or that nobody knows.

/** The shares of a process, in attempts. */
export interface Shares {
  readonly caps: Caps
  /** What one organization may take. */
  readonly organization: number
  /** What is left for endpoints that nobody knows yet. */
  unprovenRoom(busy: Iterable<Lane>, slow: ReadonlySet<Lane>): number
  /** What is left for the slow ones, in turn: those that get some now are asked last by the next claim. */
  slowRooms(slow: Set<Lane>): Map<Lane, number>
}

const CAP_START = 4
const CAP_MAX = 32
/** Of all slots, what one organization may take, and what endpoints may take together whose last attempts were slow. */
const ORGANIZATION_SHARE = 1 / 4
const SLOW_SHARE = 1 / 2
/** What those may take together that nobody knows yet, and both kinds: the rest is for those that are known to answer. */
const UNPROVEN_SHARE = 1 / 2
const DOUBTFUL_SHARE = 3 / 4
/** Of what one organization may take, what one endpoint may: one that is dead does not silence the organization's others. */
const ENDPOINT_SHARE = 1 / 2

/** @param concurrency all slots */
export function createShares(concurrency: number): Shares {
  const organization = Math.max(1, Math.ceil(concurrency * ORGANIZATION_SHARE))
  const max = Math.min(CAP_MAX, Math.max(1, Math.floor(organization * ENDPOINT_SHARE)))
  const start = Math.min(CAP_START, max)
  const slowShare = Math.max(1, Math.floor(concurrency * SLOW_SHARE))
  const doubtfulShare = Math.max(1, Math.floor(concurrency * DOUBTFUL_SHARE))
  const unprovenShare = Math.max(start, Math.floor(concurrency * UNPROVEN_SHARE))

  return {
    caps: { start, max },
    organization,

    unprovenRoom(busy, slow) {
      const unproven = countOf([...busy].filter((lane) => !lane.isProven && !slow.has(lane)))
      return Math.max(0, Math.min(unprovenShare, doubtfulShare - countOf(slow)) - unproven)
    },

    slowRooms(slow) {
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
    },
  }
}

function countOf(some: Iterable<Lane>): number {
  let count = 0
  for (const lane of some) count += sizeOf(lane)
  return count
}
