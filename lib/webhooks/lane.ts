import type { ClaimedDelivery, EndpointRef } from '../deliveries.ts'
import type { Verdict } from './verdict.ts'

// What a process knows of an endpoint: what waits for it here, and what it has shown that it can take.

/** A claimed delivery on its way through this process. */
export interface Claimed extends ClaimedDelivery {
  readonly token: string
  /** On the monotonic clock, in milliseconds. */
  readonly leaseEndsAt: number
}

/** An endpoint as this process knows it. */
export interface Lane {
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

/** How many attempts of one endpoint may be in flight at once. */
export interface Caps {
  /** While nothing is known of it. */
  readonly start: number
  readonly max: number
}

const QUICK_MS = 250
/** An endpoint that has kept all its attempts for so long is slow, whatever becomes of them. */
const SLOW_AFTER_MS = 1000
/** Of one endpoint: what comes in one piece is sent in one piece, and whoever comes after waits for all of it. */
const QUANTUM = 16

/** An endpoint of which nothing is known. */
export function createLane({ organizationId, endpointId }: EndpointRef, { start }: Caps): Lane {
  return {
    organizationId,
    endpointId,
    queue: [],
    inFlight: 0,
    cap: start,
    isQuick: false,
    isSlow: false,
    isProven: false,
    progressAt: 0,
    isQueued: false,
    room: start,
    claimed: 0,
    blockedUntil: 0,
    restsUntil: 0,
    usedAt: performance.now(),
  }
}

/** What of it is here, waiting or in flight. */
export function sizeOf({ inFlight, queue }: Lane): number {
  return inFlight + queue.length
}

/** How much may be claimed for it. */
export function roomOf(lane: Lane): number {
  if (Math.max(lane.blockedUntil, lane.restsUntil) > performance.now()) return 0
  const ahead = lane.isQuick ? lane.cap : 0
  return Math.min(QUANTUM, Math.max(0, lane.cap + ahead - sizeOf(lane)))
}

/** What an attempt has shown. */
export function learn(lane: Lane, load: Verdict['load'], durationMs: number, caps: Caps): void {
  const half = Math.floor(lane.cap / 2)
  lane.isQuick = load === 'more' && durationMs < QUICK_MS
  if (load === 'more') lane.isProven = true
  if (load === 'more') lane.cap = Math.min(caps.max, lane.cap + 1)
  if (load === 'less') lane.cap = Math.max(1, half)
  if (load === 'more' && lane.cap >= caps.start) lane.isSlow = false
  // By what is below 1, too: where one attempt is all that any may have, it can be slow all the same.
  if (load === 'less' && half < caps.start) lane.isSlow = true
}

/** Whether it can take less than a new one, or is blocked. */
export function isSlow(lane: Lane): boolean {
  return lane.isSlow || lane.blockedUntil > performance.now()
}

/** Whether all its attempts hang: they need not be waited for. */
export function isHanging({ inFlight, progressAt }: Lane): boolean {
  return inFlight > 0 && progressAt <= performance.now() - SLOW_AFTER_MS
}
