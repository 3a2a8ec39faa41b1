import { joinBytes } from './verify-webhook.ts'

/**
 * Reads a body of up to `maxBytes`, after decompression.
 *
 * @returns `null` if the body is larger, without reading the rest
 * @throws an error if the body ends early
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

/** Cancels the stream if the caller stops early. */
async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  // A custom fetch may return a Node.js stream, which has no reader, and some runtimes only support readers.
  if (typeof body.getReader !== 'function') return yield* body
  const reader = body.getReader()
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value
  } finally {
    await reader.cancel().catch(() => {})
  }
}
