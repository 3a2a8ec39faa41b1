import type { Duplex } from 'node:stream'

/** Names that undici writes by itself. */
const WRITTEN_BY_UNDICI = ['host', 'connection', 'content-length']

/**
 * Lets only known headers through. Tracing agents (OpenTelemetry, Sentry, Datadog) add `traceparent`, `baggage` and other headers to
 * undici's requests, and would show subscribers the names of the host's environments. No agent has a switch for one client, so the head
 * is filtered where it is written: undici writes it as one string.
 *
 * @param stream the stream that undici writes requests to
 * @param readHeaders returns the names and values of the present request, in turn
 */
export function keepKnownHeaders(stream: Duplex, readHeaders: () => readonly string[]): void {
  const write = stream.write.bind(stream) as (...given: unknown[]) => boolean
  stream.write = (chunk: unknown, ...rest: unknown[]): boolean => {
    const isHead = typeof chunk === 'string' && chunk.startsWith('POST ')
    return write(isHead ? filterHead(chunk, readHeaders()) : chunk, ...rest)
  }
}

function filterHead(head: string, headers: readonly string[]): string {
  // Each line ends with a line feed: the request line, the headers, and the blank line.
  if (countLineFeeds(head) === 2 + WRITTEN_BY_UNDICI.length + headers.length / 2) return head
  const [requestLine, ...lines] = head.split('\r\n')
  const unwritten = new Set(WRITTEN_BY_UNDICI)
  for (let place = 0; place < headers.length; place += 2) unwritten.add(String(headers[place]).toLowerCase())
  // Each name once: a header that an agent writes beside the endpoint's own of the same name comes later.
  const known = lines.filter((line) => line === '' || unwritten.delete(readName(line)))
  return [requestLine, ...known].join('\r\n')
}

function countLineFeeds(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count += 1
  return count
}

function readName(line: string): string {
  return line.slice(0, line.indexOf(':')).toLowerCase()
}
