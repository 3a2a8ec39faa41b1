import {
  CONNREFUSED,
  type LookupAddress,
  type LookupAllOptions,
  NODATA,
  NOTFOUND,
  lookup as systemLookup,
} from 'node:dns'
import { Resolver } from 'node:dns/promises'
import { readFunction, readWhole, rejectUnknown } from '../base/options.ts'
import { sleep } from '../base/time.ts'

/** Options for {@link createPublicLookup}. */
export interface PublicLookupOptions {
  /** DNS server addresses. Defaults to the system's DNS servers. */
  readonly servers?: readonly string[] | undefined
  /** Timeout per server and try, in milliseconds. Each server is tried twice. Defaults to 2000. */
  readonly timeoutMs?: number | undefined
  /** The system lookup to fall back to. Defaults to `dns.lookup`. */
  readonly system?: Lookup | undefined
}

/** Resolves a hostname to all of its addresses. Takes the same arguments as `dns.lookup`. */
export type Lookup = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/** Error codes for nonexistent hostnames and hostnames with no addresses. */
const NOT_THERE = new Set<unknown>([NOTFOUND, NODATA])

/** Returns `true` if the lookup failed because the hostname doesn't exist. */
export function isNotThere(error: unknown): boolean {
  return error instanceof Error && 'code' in error && NOT_THERE.has(error.code)
}

/**
 * Creates a lookup for untrusted hostnames that queries DNS servers directly. `dns.lookup` runs on Node's default pool
 * of four threads, which is also used for file I/O, so a handful of endpoints with unresponsive DNS servers could slow
 * down every other endpoint and your application.
 * If DNS doesn't know a hostname, we fall back to the system lookup because the name may be in the hosts file. System
 * lookups run one at a time.
 *
 * @param options DNS servers, timeout and system lookup
 * @example
 * ```ts
 * const sender = createWebhookSender({ lookup: createPublicLookup({ servers: ['9.9.9.9'] }) })
 * ```
 */
export function createPublicLookup(options: PublicLookupOptions = {}): Lookup {
  rejectUnknown(options, { servers: true, timeoutMs: true, system: true })
  const { servers } = options
  const timeoutMs = readWhole('timeoutMs', options.timeoutMs, 2000)
  const system = readFunction('system', options.system) ?? systemLookup
  let resolver: Resolver | undefined
  let lastAsked: Promise<unknown> = Promise.resolve()

  function openResolver(): Resolver {
    const opened = new Resolver({ timeout: timeoutMs, tries: 2 })
    if (servers) opened.setServers(servers)
    return opened
  }
  if (servers !== undefined) checkServers(servers)

  async function resolve(hostname: string): Promise<LookupAddress[]> {
    resolver ??= openResolver()
    const [four, six] = await settleBoth(resolver.resolve4(hostname), resolver.resolve6(hostname))
    const found = [...addressesOf(four, 4), ...addressesOf(six, 6)]
    if (found.length > 0) return found
    if (isForSystem(four) && isForSystem(six)) return askSystem(hostname)
    throw four.status === 'rejected' && !isForSystem(four)
      ? four.reason
      : (six as PromiseRejectedResult).reason
  }

  function askSystem(hostname: string): Promise<LookupAddress[]> {
    const asked = lastAsked.then(() => lookUp(hostname, system))
    // If the system lookup hangs, let the next one start after the timeout.
    lastAsked = Promise.race([asked.catch(() => {}), sleep(timeoutMs, { keepsAlive: false })])
    return asked
  }

  return (hostname, _options, callback) => {
    resolve(hostname).then(
      (addresses) => callback(null, addresses),
      (error) => callback(error, []),
    )
  }
}

/** A resolver opens no socket before its first query. @throws `TypeError` without the values, unlike Node's error */
function checkServers(servers: readonly string[]): void {
  try {
    new Resolver().setServers(servers)
  } catch {
    throw new TypeError("Option 'servers' must be a list of DNS servers' addresses, like '9.9.9.9'")
  }
}

/** The default lookup for untrusted hostnames. */
export const publicLookup: Lookup = createPublicLookup()

/**
 * Validates the `lookup` option. Defaults to {@link publicLookup}, or the system lookup if private networks
 * are allowed.
 *
 * @throws `TypeError` if it's not a function
 */
export function readLookup(given: Lookup | undefined, allowPrivateNetworks: boolean): Lookup {
  const byDefault = allowPrivateNetworks ? systemLookup : publicLookup
  return readFunction('lookup', given) ?? byDefault
}

/** How long to wait for the second address family, in milliseconds. Some DNS servers never respond to IPv6 queries. */
const OTHER_FAMILY_MS = 200

async function settleBoth(
  four: Promise<string[]>,
  six: Promise<string[]>,
): Promise<[PromiseSettledResult<string[]>, PromiseSettledResult<string[]>]> {
  const isFound = (addresses: string[]): boolean => addresses.length > 0
  const first = Promise.any([four, six].map(async (family) => isFound(await family) || Promise.reject()))
  const enough = first.then(() => sleep(OTHER_FAMILY_MS, { keepsAlive: false })).then(() => [])
  const both = Promise.allSettled([Promise.race([four, enough]), Promise.race([six, enough])])
  // Rejects if neither family resolves. Safe to ignore because `both` has the error.
  enough.catch(() => {})
  return both
}

function addressesOf(result: PromiseSettledResult<string[]>, family: 4 | 6): LookupAddress[] {
  return result.status === 'fulfilled' ? result.value.map((address) => ({ address, family })) : []
}

/** Returns `true` if DNS doesn't know the hostname or no DNS server can be reached. */
function isForSystem(result: PromiseSettledResult<string[]>): boolean {
  return result.status === 'fulfilled' || isNotThere(result.reason) || result.reason?.code === CONNREFUSED
}

/** Calls a lookup for all of a hostname's addresses. Rejects if the lookup fails in any way. */
export function lookUp(hostname: string, lookup: Lookup): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    const asked: unknown = lookup(hostname, { all: true, verbatim: true }, (error, addresses) => {
      if (error) reject(error)
      else resolve(addresses)
    })
    // The host's function may be async despite the type.
    Promise.resolve(asked).catch(reject)
  })
}
