import * as v from 'valibot'

const HEADERS_MAX = 20
const VALUE_MAX = 1024

/**
 * What the service sets itself, and what belongs to the connection and not to the message: undici refuses a request
 * with `Expect`, `Keep-Alive` or `Upgrade`, so every attempt would fail.
 */
const RESERVED = [
  'Connection',
  'Content-Length',
  'Content-Type',
  'Expect',
  'Host',
  'Keep-Alive',
  'Proxy-Connection',
  'TE',
  'Trailer',
  'Transfer-Encoding',
  'Upgrade',
  'User-Agent',
]

/** A token of RFC 9110, and no longer than any name in use. */
const NAME = /^[\w!#$%&'*+.^`|~-]{1,100}$/
/** Visible ASCII, with spaces only inside. */
const VALUE = /^[!-~]([ -~]*[!-~])?$/

/**
 * The headers that an organization may have sent with its events, copied.
 *
 * @param headerPrefix of the service's own headers: `X-SERVICE`
 */
export function endpointHeaders(headerPrefix: string): v.GenericSchema<Readonly<Record<string, string>>> {
  const reserved = new Set(RESERVED.map((name) => name.toLowerCase()))
  const ownPrefix = `${headerPrefix.toLowerCase()}-`

  function isHeaders(value: unknown): boolean {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
    const names = Object.keys(value).map((name) => name.toLowerCase())
    return (
      names.length <= HEADERS_MAX &&
      new Set(names).size === names.length &&
      names.every((name) => NAME.test(name) && !reserved.has(name) && !name.startsWith(ownPrefix)) &&
      Object.values(value).every(isHeaderValue)
    )
  }

  // Not a record of valibot's: it leaves out some names, `constructor` for one, without a word.
  return v.pipe(
    v.custom<Readonly<Record<string, string>>>(
      isHeaders,
      `must be an object of at most ${HEADERS_MAX} header names, each once, with values of 1 to ${VALUE_MAX} visible ` +
        `ASCII characters, and without ${RESERVED.join(', ')} and ${headerPrefix}-*`,
    ),
    v.transform((headers) => Object.fromEntries(Object.entries(headers))),
  )
}

function isHeaderValue(value: unknown): boolean {
  return typeof value === 'string' && value.length <= VALUE_MAX && VALUE.test(value)
}
