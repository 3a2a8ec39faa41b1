import type { TestSender } from './_loop.ts'

/** Returns the signature header of the request with this number. */
export function signatureOf({ requests }: TestSender, number = 1): string {
  return requests[number - 1]?.headers['X-SERVICE-Signature'] ?? ''
}

/** Returns the `t` of a signature header in Unix seconds. */
export function timestampOf(signature: string): number {
  return Number(/^t=(\d+),/.exec(signature)?.[1])
}
