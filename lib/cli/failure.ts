import { BusinessApiError, INVALID_INPUT, STORE_UNAVAILABLE } from '../base/errors.ts'
import { visible } from '../base/visible-text.ts'
import { connectionFault } from '../postgres/connection/connection-fault.ts'
import { describeTarget, readTarget } from '../postgres/connection/target.ts'
import { dashed } from './names.ts'

/** The command line is invalid or incomplete, and nothing was changed. The exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The command failed or didn't complete. The exit code is 1. */
export class Failure extends Error {
  override readonly name = 'Failure'
}

/** How a failed process ends. */
export interface FailureReport {
  /** A single line with no secrets in it. */
  readonly line: string
  readonly exitCode: 1 | 2
}

/** Describes a failure in a single line, without a stack trace or connection string. */
export function describeFailure(error: unknown): FailureReport {
  const { text, exitCode } = judge(error)
  const inWords = text.replaceAll('the connection string', 'DATABASE_URL').replaceAll(/\s+/g, ' ')
  return { line: visible(inWords.trim()), exitCode }
}

function judge(error: unknown): { readonly text: string; readonly exitCode: 1 | 2 } {
  if (!(error instanceof Error)) return { text: 'Unexpected failure', exitCode: 1 }
  if (error instanceof UsageError) return { text: error.message, exitCode: 2 }
  if (error instanceof Failure) return { text: error.message, exitCode: 1 }
  if (error instanceof BusinessApiError) return judgeExpected(error)
  const fault = connectionFault(error)
  if (fault !== null) return { text: `Cannot reach PostgreSQL: ${fault}`, exitCode: 1 }
  const [, option] = /^(?:Cannot use option|Option) '(\w+)/.exec(error.message) ?? []
  // Library options are flags on the command line.
  if (option)
    return {
      text: error.message.replace(/\b[Oo]ption '\w+'/, dashed(option.replace(/Ms$/, ''))),
      exitCode: 2,
    }
  return { text: error.message || `Unexpected failure: ${codeOf(error) || error.name}`, exitCode: 1 }
}

function judgeExpected(error: BusinessApiError): ReturnType<typeof judge> {
  const { cause, code, message } = error
  if (code !== STORE_UNAVAILABLE || cause === undefined) {
    return { text: inFlags(message), exitCode: code === INVALID_INPUT ? 2 : 1 }
  }
  const detail = connectionFault(cause) ?? (cause instanceof Error ? cause.message || codeOf(cause) : '')
  // Messages from migrate() already include the detail.
  return { text: inFlags(message.endsWith(detail) ? message : `${message}: ${detail}`), exitCode: 1 }
}

/**
 * Adds the server, user and database to connection failures. Returns any other error unchanged.
 *
 * @param url the connection string. Its password isn't included
 */
export function nameTarget(error: unknown, url: string): unknown {
  const isUnavailable = error instanceof BusinessApiError && error.code === STORE_UNAVAILABLE
  if (!isUnavailable && connectionFault(error) === null) return error
  const target = `(${describeTarget(readTarget(url))})`
  const { line } = describeFailure(error)
  if (line.includes(target)) return error
  const [action = '', ...reason] = line.split(/(?=: | because )/)
  return new Failure(`${action} ${target}${reason.join('')}`)
}

/** Flags whose name differs from the library's field. */
const FLAG_OF_FIELD: Readonly<Record<string, string>> = {
  organizationId: '--organization',
  endpointId: '--endpoint',
  subjectId: '--subject',
  expiresAt: '--expires',
  overlapMs: '--overlap',
  headers: '--header',
  secret: '--secret-stdin',
  states: '--state',
}

const ADVICE: readonly (readonly [refusal: RegExp, advice: string])[] = [
  [/ was rejected: must be https$/, '; --allow-http allows it, for development'],
  [
    / was rejected: destination not allowed$/,
    ' (its host is unknown, or leads to a private address); --allow-private-networks allows it, for development',
  ],
]

/** Rewrites a library message for the command line. Fields and options become flags and variables. */
export function inFlags(message: string): string {
  const [, advice = ''] = ADVICE.find(([refusal]) => refusal.test(message)) ?? []
  const inWords = message
    .replaceAll(
      /(?<= because |; )(?!it\b)\w+(?= (?:must|was rejected))/g,
      (field) => FLAG_OF_FIELD[field] ?? dashed(field),
    )
    .replace(/\boption 'secretKeys' is empty\b/, 'BUSINESS_API_SECRET_KEYS is not set')
    .replace(/set option 'sessions' to false, and (.*)/, '$1; deliver also needs --pooler')
    .replace(/\b(?:the )?'secretKeys'/, 'the keys of BUSINESS_API_SECRET_KEYS')
    .replace(/\b[Oo]ption '(\w+)'|'(allowPlaintextSecrets)'/g, (_, option, alone) => dashed(option ?? alone))
  return inWords + advice
}

/** Returns the code of a PostgreSQL or network error, or an empty string if there is none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
