import {
  CONNREFUSED,
  type LookupAddress,
  type LookupAllOptions,
  NODATA,
  NOTFOUND,
  lookup as systemLookup,
} from 'node:dns'
import { Resolver } from 'node:dns/promises'

/** What {@link createPublicLookup} asks, and for how long. */
export interface PublicLookupOptions {
  /** Addresses of name servers. Default those of the system. */
  readonly servers?: readonly string[] | undefined
  /** Milliseconds that a name server may take; it is asked twice. Default 2000. */
  readonly timeoutMs?: number | undefined
  /** Asks the system. Default `dns.lookup`. */
  readonly system?: Lookup | undefined
}

/** Resolves a name to all its addresses: `dns.lookup`, or anything of its call form. */
export type Lookup = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/** The codes of a name that does not exist, or has no address. */
const NOT_THERE = new Set<unknown>([NOTFOUND, NODATA])

/** Whether a look-up has failed because there is no such name. */
export function isNotThere(error: unknown): boolean {
  return error instanceof Error && 'code' in error && NOT_THERE.has(error.code)
}

/**
 * Resolves names that strangers have given, by asking the name servers from this process. `dns.lookup` asks the system,
 * which uses one of the four threads that Node has for files and all else: a few endpoints whose name servers are silent
 * would hold up every other endpoint, and the host.
 *
 * A name that no server has may still be in the hosts file: the system is asked for those, one at a time.
 */
export function createPublicLookup({
  servers,
  timeoutMs = 2000,
  system = systemLookup,
}: PublicLookupOptions = {}): Lookup {
  let resolver: Resolver | undefined
  let lastAsked: Promise<unknown> = Promise.resolve()

  function openResolver(): Resolver {
    const opened = new Resolver({ timeout: timeoutMs, tries: 2 })
    if (servers) opened.setServers(servers)
    return opened
  }

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
    // A system that is silent has the others wait for one turn of a few seconds, and not for ever.
    lastAsked = Promise.race([asked.catch(() => {}), pause(timeoutMs)])
    return asked
  }

  return (hostname, _options, callback) => {
    resolve(hostname).then(
      (addresses) => callback(null, addresses),
      (error) => callback(error, []),
    )
  }
}

/** The look-up of everything that goes to addresses that strangers have given. */
export const publicLookup: Lookup = createPublicLookup()

/**
 * The host's look-up, or one that suits where webhooks may go: with private networks it is that of the system.
 *
 * @throws `TypeError` unless it is a function
 */
export function readLookup(given: Lookup | undefined, allowPrivateNetworks: boolean): Lookup {
  const byDefault = allowPrivateNetworks ? systemLookup : publicLookup
  const lookup = given === undefined ? byDefault : given
  if (typeof lookup === 'function') return lookup
  throw new TypeError(`Cannot use option 'lookup' as it must be a function: current value is ${lookup}`)
}

/** How long the addresses of one family wait for those of the other: some name servers never answer for IPv6. */
const OTHER_FAMILY_MS = 200

async function settleBoth(
  four: Promise<string[]>,
  six: Promise<string[]>,
): Promise<[PromiseSettledResult<string[]>, PromiseSettledResult<string[]>]> {
  const isFound = (addresses: string[]): boolean => addresses.length > 0
  const first = Promise.any([four, six].map(async (family) => isFound(await family) || Promise.reject()))
  const enough = first.then(() => pause(OTHER_FAMILY_MS)).then(() => [])
  const both = Promise.allSettled([Promise.race([four, enough]), Promise.race([six, enough])])
  // Where neither family is found there is nothing to have enough of.
  enough.catch(() => {})
  return both
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}

function addressesOf(result: PromiseSettledResult<string[]>, family: 4 | 6): LookupAddress[] {
  return result.status === 'fulfilled' ? result.value.map((address) => ({ address, family })) : []
}

/** Whether no name server has the name, or there is no name server. */
function isForSystem(result: PromiseSettledResult<string[]>): boolean {
  return result.status === 'fulfilled' || isNotThere(result.reason) || result.reason?.code === CONNREFUSED
}

function lookUp(hostname: string, system: Lookup): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    system(hostname, { all: true, verbatim: true }, (error, addresses) => {
      if (error) reject(error)
      else resolve(addresses)
    })
  })
}
