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

/** The timings of an attempt, as far as known. */
export type Timings = { -readonly [Part in keyof AttemptTimings]: AttemptTimings[Part] }

/** Makes the timings of an attempt before its start: every part null. */
export function createTimings(): Timings {
  return { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null }
}

/** The destination of a connection, and the functions that open it. */
export interface DialTarget {
  readonly hostname: string
  readonly port: number
  /** Opens the connection itself. */
  readonly connect: (options: TcpNetConnectOpts) => MeteredSocket
  /** Encrypts a connection that is open; `null` for plain HTTP. */
  readonly secure: ((stream: Duplex, done: DialResult) => void) | null
}

/**
 * Receives the result of dialling once, unless the connection was destroyed meanwhile: the stream that HTTP reads and
 * writes, or the error.
 */
export type DialResult = (...result: [error: null, stream: Duplex] | [error: Error, stream: null]) => void

/** The checks between a host name and a connection. */
export interface AddressGuard {
  resolve(hostname: string): Promise<readonly LookupAddress[]>
  judge(addresses: readonly Pick<LookupAddress, 'address'>[]): DestinationVerdict
  /** Judges a name that `resolve` rejected. */
  judgeUnresolved(hostname: string, error: unknown): DestinationVerdict
}

const SOCKET_OPTIONS = {
  noDelay: true,
  autoSelectFamily: true,
  // Node abandons an address when it tries the next, by default after 250 ms: too early for the far side of the earth, and for a
  // lost first packet, because the system repeats the packet after a second.
  autoSelectFamilyAttemptTimeout: 2000,
}

/**
 * Opens a connection to an allowed address. The addresses that the socket itself will use are judged, never the addresses of an
 * earlier lookup: a name that is resolved a second time may have other addresses by then. The remote address is judged once
 * more, before a byte is written.
 *
 * @returns the connection, so dialling can be stopped; `undefined` if the address was rejected before dialling
 */
export function dial(
  target: DialTarget,
  guard: AddressGuard,
  timings: Timings,
  done: DialResult,
): MeteredSocket | undefined {
  const { hostname, port } = target
  // An address in the URL is not looked up.
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

/** Passes the first result on only: a connection that breaks after it was opened has not failed to open. */
function once(done: DialResult): DialResult {
  let isDone = false
  return (...result) => {
    if (!isDone) {
      isDone = true
      done(...result)
    }
  }
}

/** Resolves a name to all addresses; the socket tries the addresses in turn. */
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

/** @returns the reason why an address of the host is rejected; `null` if all are allowed */
function judgeAll(
  host: string,
  addresses: readonly Pick<LookupAddress, 'address'>[],
  { judge }: AddressGuard,
): SendError | null {
  const verdict = judge(addresses)
  return verdict.allowed ? null : new SendError(DESTINATION_REFUSED, `${host}: ${verdict.detail}`)
}

/** Age at which a lookup counts as lost, in ms: no attempt can still be waiting. */
const LOST_AFTER_MS = 10_000

/**
 * Makes at most one lookup at a time for each name (single flight). The system resolves only a few names at once, and
 * an endpoint with a silent name server would take all these places with a few attempts.
 *
 * @param lostAfterMs milliseconds after which a lookup that never calls back no longer holds its name
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
