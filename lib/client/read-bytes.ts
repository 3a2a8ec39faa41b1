import { joinBytes } from './verify-webhook.ts'

/**
 * Reads a body of at most `maxBytes`, counted after decompression.
 *
 * @returns null for a longer body, whose rest is not read
 * @throws the error of a body that ends early
 */
export async function readBytes(
  { body }: Pick<Request, 'body'>,
  maxBytes: number,
): Promise<Uint8Array | null> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body === null ? [] : chunksOf(body)) {
    size += chunk.length
    if (size > maxBytes) return null
    chunks.push(chunk)
  }
  return joinBytes(chunks, size)
}

/** Ends the stream when the caller stops early. */
async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  // A fetch of the host's own may give a stream of Node, which has no reader, and in some runtimes only a reader can read.
  if (typeof body.getReader !== 'function') return yield* body
  const reader = body.getReader()
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value
  } finally {
    await reader.cancel().catch(() => {})
  }
}
