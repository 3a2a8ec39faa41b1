import type { Duplex } from 'node:stream'

/** Names that undici writes by itself. */
const WRITTEN_BY_UNDICI = ['host', 'connection', 'content-length']

/**
 * Lets only known headers through. Tracing agents (OpenTelemetry, Sentry, Datadog) add `traceparent`, `baggage` and headers of their own
 * to each request of undici, and would tell subscribers names of the host's environments. No agent has a switch for one client, so the
 * head is filtered where it is written: undici writes it as one string.
 *
 * @param stream the stream that undici writes requests to
 * @param readNames returns the names of the present request's headers, in lower case
 */
export function keepKnownHeaders(stream: Duplex, readNames: () => ReadonlySet<string>): void {
  const write = stream.write.bind(stream) as (...given: unknown[]) => boolean
  stream.write = (...given: unknown[]): boolean => {
    const [head, ...rest] = given
    if (typeof head !== 'string' || !head.startsWith('POST ')) return write(...given)
    return write(filterHead(head, readNames()), ...rest)
  }
}

function filterHead(head: string, names: ReadonlySet<string>): string {
  const [requestLine, ...lines] = head.split('\r\n')
  const unwritten = new Set([...WRITTEN_BY_UNDICI, ...names])
  // Each name once: a header that an agent writes beside the endpoint's own of the same name comes later.
  const known = lines.filter((line) => line === '' || unwritten.delete(readName(line)))
  return known.length === lines.length ? head : [requestLine, ...known].join('\r\n')
}

function readName(line: string): string {
  return line.slice(0, line.indexOf(':')).toLowerCase()
}
