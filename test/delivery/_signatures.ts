import type { TestSender } from './_loop.ts'

/** The signature header of the request that was made as the `number`th. */
export function signatureOf({ requests }: TestSender, number = 1): string {
  return requests[number - 1]?.headers['X-SERVICE-Signature'] ?? ''
}

/** The `t` of a signature header, in Unix seconds. */
export function timestampOf(signature: string): number {
  return Number(/^t=(\d+),/.exec(signature)?.[1])
}
