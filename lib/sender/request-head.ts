import type { Duplex } from 'node:stream'

/** Headers that undici adds itself. */
const WRITTEN_BY_UNDICI = ['host', 'connection', 'content-length']

/**
 * Only lets known headers through. Tracing agents (OpenTelemetry, Sentry, Datadog) add headers such as `traceparent`
 * and `baggage` to undici's requests, which would reveal the names of the host's environments to subscribers. The
 * agents can't be disabled for a single client, so we filter the head when undici writes it as a single string.
 *
 * @param stream the stream undici writes requests to
 * @param readHeaders returns alternating names and values of the current request
 */
export function keepKnownHeaders(stream: Duplex, readHeaders: () => readonly string[]): void {
  const write = stream.write.bind(stream) as (...given: unknown[]) => boolean
  stream.write = (chunk: unknown, ...rest: unknown[]): boolean => {
    const isHead = typeof chunk === 'string' && chunk.startsWith('POST ')
    return write(isHead ? filterHead(chunk, readHeaders()) : chunk, ...rest)
  }
}

function filterHead(head: string, headers: readonly string[]): string {
  // There is one line for the request line, one per header, and a blank line.
  if (countLineFeeds(head) === 2 + WRITTEN_BY_UNDICI.length + headers.length / 2) return head
  const [requestLine, ...lines] = head.split('\r\n')
  const unwritten = new Set(WRITTEN_BY_UNDICI)
  for (let place = 0; place < headers.length; place += 2) unwritten.add(String(headers[place]).toLowerCase())
  // Keep the first header with each name. If an agent adds one that the endpoint already has, it comes later.
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
