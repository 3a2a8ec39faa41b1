import type { LookupAddress } from 'node:dns'
import { isIP, type LookupFunction, type TcpNetConnectOpts } from 'node:net'
import type { Duplex } from 'node:stream'
import { type DestinationVerdict, resolveAddresses } from '../webhooks/destination.ts'
import type { Lookup } from '../webhooks/dns-lookup.ts'
import type { AttemptTimings } from '../webhooks/webhook-sender.ts'
import type { MeteredSocket } from './metered-socket.ts'
import {
  CONNECTION_FAILED,
  DESTINATION_REFUSED,
  DNS_FAILED,
  SendError,
  TLS_FAILED,
  toSendError,
} from './send-error.ts'

/** An attempt's timings so far. */
export type Timings = { -readonly [Part in keyof AttemptTimings]: AttemptTimings[Part] }

/** Creates timings that are all `null`. */
export function createTimings(): Timings {
  return { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null }
}

/** Where and how to connect. */
export interface DialTarget {
  readonly hostname: string
  readonly port: number
  readonly connect: (options: TcpNetConnectOpts) => MeteredSocket
  /** Starts TLS on an open connection. `null` for plain HTTP. */
  readonly secure: ((stream: Duplex, done: DialResult) => void) | null
}

/** Called once, with either the stream to use for HTTP or an error. Not called if the connection is destroyed first. */
export type DialResult = (...result: [error: null, stream: Duplex] | [error: Error, stream: null]) => void

/** The checks between resolving a hostname and connecting. */
export interface AddressGuard {
  resolve(hostname: string): Promise<readonly LookupAddress[]>
  judge(addresses: readonly Pick<LookupAddress, 'address'>[]): DestinationVerdict
  /** Checks a hostname that `resolve` couldn't resolve. */
  judgeUnresolved(hostname: string, error: unknown): DestinationVerdict
}

const SOCKET_OPTIONS = {
  noDelay: true,
  autoSelectFamily: true,
  // By default, Node tries the next address after 250 ms. That's too short for distant servers, or if the first packet
  // is lost, since the system takes a second to resend it.
  autoSelectFamilyAttemptTimeout: 2000,
}

/**
 * Connects to an allowed address. We check the addresses that the socket is going to use, because a separate lookup
 * could return different ones. The remote address is checked again before we write anything.
 *
 * @returns the connection, which can be used to cancel dialing, or `undefined` if the address was rejected
 */
export function dial(
  target: DialTarget,
  guard: AddressGuard,
  timings: Timings,
  done: DialResult,
): MeteredSocket | undefined {
  const { hostname, port } = target
  // If the URL has an IP address, there's no lookup, so check the address here.
  const refusal = isIP(hostname) ? judgeAll(hostname, [{ address: hostname }], guard) : null
  if (refusal) {
    done(refusal, null)
    return undefined
  }
  const startedAt = performance.now()
  const finish = once(done)
  const connection = target.connect({ host: hostname, port, lookup, ...SOCKET_OPTIONS })
  const { socket, stream } = connection

  function lookup(...[name, , answer]: Parameters<LookupFunction>): void {
    vet(name, guard)
      .finally(() => {
        timings.dnsMs = performance.now() - startedAt
      })
      .then(
        (addresses) => answer(null, addresses),
        (error) => answer(error, []),
      )
  }

  socket
    .on('error', (error) => finish(toSendError(error, CONNECTION_FAILED), null))
    .once('connect', () => {
      timings.connectMs = performance.now() - startedAt - (timings.dnsMs ?? 0)
      const refusal = judgeAll(hostname, [{ address: socket.remoteAddress ?? '' }], guard)
      if (refusal) socket.destroy(refusal)
      else if (target.secure) encrypt(stream, target.secure, timings, finish)
      else finish(null, stream)
    })
  return connection
}

/** Only passes on the first result. If the connection breaks later, that isn't a failure to connect. */
function once(done: DialResult): DialResult {
  let isDone = false
  return (...result) => {
    if (!isDone) {
      isDone = true
      done(...result)
    }
  }
}

/** Resolves a hostname to all of its addresses, which the socket tries in order. */
async function vet(hostname: string, guard: AddressGuard): Promise<LookupAddress[]> {
  const addresses = await guard.resolve(hostname).catch((error) => {
    const verdict = guard.judgeUnresolved(hostname, error)
    if (!verdict.allowed) throw new SendError(DESTINATION_REFUSED, verdict.detail, { cause: error })
    throw new SendError(DNS_FAILED, error instanceof Error ? error.message : String(error), { cause: error })
  })
  const refusal = judgeAll(hostname, addresses, guard)
  if (refusal) throw refusal
  return addresses.map(({ address }) => ({ address, family: isIP(address) }))
}

function encrypt(
  stream: Duplex,
  secure: NonNullable<DialTarget['secure']>,
  timings: Timings,
  done: DialResult,
): void {
  const startedAt = performance.now()
  secure(stream, (error, encrypted) => {
    if (error) return done(toSendError(error, TLS_FAILED), null)
    timings.tlsMs = performance.now() - startedAt
    done(null, encrypted)
  })
}

/** @returns why one of the host's addresses is rejected, or `null` if all of them are allowed */
function judgeAll(
  host: string,
  addresses: readonly Pick<LookupAddress, 'address'>[],
  { judge }: AddressGuard,
): SendError | null {
  const verdict = judge(addresses)
  return verdict.allowed ? null : new SendError(DESTINATION_REFUSED, `${host}: ${verdict.detail}`)
}

/** A lookup that takes longer than this is considered lost, in milliseconds. No attempt waits that long. */
const LOST_AFTER_MS = 10_000

/**
 * Runs at most one lookup per hostname at a time (single flight). The system can only resolve a few names in parallel,
 * so a handful of attempts to an endpoint with an unresponsive DNS server could otherwise block all lookups.
 *
 * @param lostAfterMs allow another lookup if this one hasn't called back within this many milliseconds
 */
export function shareLookups(lookup: Lookup, lostAfterMs: number = LOST_AFTER_MS): AddressGuard['resolve'] {
  const underWay = new Map<string, { readonly answer: Promise<LookupAddress[]>; readonly begunAt: number }>()
  return (hostname) => {
    const joined = underWay.get(hostname)
    if (joined && performance.now() - joined.begunAt < lostAfterMs) return joined.answer
    const answer = resolveAddresses(hostname, lookup).finally(() => {
      if (underWay.get(hostname) === begun) underWay.delete(hostname)
    })
    const begun = { answer, begunAt: performance.now() }
    underWay.set(hostname, begun)
    return answer
  }
}
