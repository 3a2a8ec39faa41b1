import {
  CONNREFUSED,
  type LookupAddress,
  type LookupAllOptions,
  NODATA,
  NOTFOUND,
  lookup as systemLookup,
} from 'node:dns'
import { Resolver } from 'node:dns/promises'
import { type Names, readFunction, readWhole, rejectUnknown } from '../base/options.ts'
import { sleep } from '../base/time.ts'

/** The options of {@link createPublicLookup}. */
export interface PublicLookupOptions {
  /** Addresses of name servers. Default: the name servers of the system. */
  readonly servers?: readonly string[] | undefined
  /** Timeout of a name server for each of two tries, in ms. Default 2000. */
  readonly timeoutMs?: number | undefined
  /** Asks the system. Default `dns.lookup`. */
  readonly system?: Lookup | undefined
}

/** Resolves a name to all addresses of the name: `dns.lookup`, or another function with the same parameters. */
export type Lookup = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/** The codes of a name that does not exist, or has no address. */
const NOT_THERE = new Set<unknown>([NOTFOUND, NODATA])

/** Returns whether a lookup has failed because the name does not exist. */
export function isNotThere(error: unknown): boolean {
  return error instanceof Error && 'code' in error && NOT_THERE.has(error.code)
}

const NAMES: Names<PublicLookupOptions> = { servers: true, timeoutMs: true, system: true }

/**
 * Creates a lookup for host names from strangers. It queries the name servers from this process. `dns.lookup` would use Node's pool of four
 * threads, shared with file access: a few endpoints with silent name servers would delay every other endpoint and your application.
 *
 * A name that no server knows may still be in the hosts file, so such names are looked up by the system, one at a time.
 *
 * @param options the name servers and the timeout for each; `system` resolves names that no server knows
 * @example
 * ```ts
 * const sender = createWebhookSender({ lookup: createPublicLookup({ servers: ['9.9.9.9'] }) })
 * ```
 */
export function createPublicLookup(options: PublicLookupOptions = {}): Lookup {
  rejectUnknown(options, NAMES)
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
    // A silent system delays the next name by a few seconds only.
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

/** The lookup for every name from a stranger. */
export const publicLookup: Lookup = createPublicLookup()

/**
 * Reads the host's lookup. Default: {@link publicLookup}, or the lookup of the system if private networks are
 * allowed.
 *
 * @throws `TypeError` for a value that is not a function
 */
export function readLookup(given: Lookup | undefined, allowPrivateNetworks: boolean): Lookup {
  const byDefault = allowPrivateNetworks ? systemLookup : publicLookup
  return readFunction('lookup', given) ?? byDefault
}

/**
 * How long the addresses of one family wait for the other family, in ms: some name servers never respond for IPv6.
 */
const OTHER_FAMILY_MS = 200

async function settleBoth(
  four: Promise<string[]>,
  six: Promise<string[]>,
): Promise<[PromiseSettledResult<string[]>, PromiseSettledResult<string[]>]> {
  const isFound = (addresses: string[]): boolean => addresses.length > 0
  const first = Promise.any([four, six].map(async (family) => isFound(await family) || Promise.reject()))
  const enough = first.then(() => sleep(OTHER_FAMILY_MS, { keepsAlive: false })).then(() => [])
  const both = Promise.allSettled([Promise.race([four, enough]), Promise.race([six, enough])])
  // Rejects when neither family is found; `both` carries that error.
  enough.catch(() => {})
  return both
}

function addressesOf(result: PromiseSettledResult<string[]>, family: 4 | 6): LookupAddress[] {
  return result.status === 'fulfilled' ? result.value.map((address) => ({ address, family })) : []
}

/** Returns true if no name server knows the name, or no name server can be reached. */
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
