import type { Duplex } from 'node:stream'

/** Headers that undici adds itself */
const WRITTEN_BY_UNDICI = ['host', 'connection', 'content-length']

/**
 * Only allows known headers. Tracing agents (OpenTelemetry, Sentry, Datadog) add headers like `traceparent` and
 * `baggage` to undici's requests, which would tell subscribers how our environments are named. We can't disable an
 * agent for a single client, so we filter the head as undici writes it in a single string.
 *
 * @param stream the stream that undici writes requests to
 * @param readHeaders returns the current request's headers as alternating names and values
 */
export function keepKnownHeaders(stream: Duplex, readHeaders: () => readonly string[]): void {
  const write = stream.write.bind(stream) as (...given: unknown[]) => boolean
  stream.write = (chunk: unknown, ...rest: unknown[]): boolean => {
    const isHead = typeof chunk === 'string' && chunk.startsWith('POST ')
    return write(isHead ? filterHead(chunk, readHeaders()) : chunk, ...rest)
  }
}

function filterHead(head: string, headers: readonly string[]): string {
  // Request line, one line per header, blank line
  if (countLineFeeds(head) === 2 + WRITTEN_BY_UNDICI.length + headers.length / 2) return head
  const [requestLine, ...lines] = head.split('\r\n')
  const unwritten = new Set(WRITTEN_BY_UNDICI)
  for (let place = 0; place < headers.length; place += 2) unwritten.add(String(headers[place]).toLowerCase())
  // Keep the first header with each name, because anything that an agent adds comes later.
  const known = lines.filter(
    (line) => line === '' || unwritten.delete(line.slice(0, line.indexOf(':')).toLowerCase()),
  )
  return [requestLine, ...known].join('\r\n')
}

function countLineFeeds(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count += 1
  return count
}
