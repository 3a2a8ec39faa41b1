import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { BusinessApiError, type ErrorCode } from '../../lib/base/errors.ts'

/** Asserts that a call is rejected with a code and a message that names the action and the problem. */
export async function assertRefused(
  call: Promise<unknown>,
  code: ErrorCode,
  action: string,
  about: RegExp,
): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof BusinessApiError, inspect(error))
    assert.equal(error.code, code)
    assert.ok(error.message.startsWith(`${action} because `), error.message)
    assert.match(error.message, about)
    assert.doesNotMatch(inspect(error), /whsec_[^ ]|s3cret/)
    assert.doesNotMatch(error.message, /Invalid|Expected|but received|undefined/)
    return true
  })
}

/** Allows values that the compiler would reject, which JavaScript hosts could pass. */
export function untyped<T>(value: unknown): T {
  return value as T
}
