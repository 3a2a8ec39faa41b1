import { BusinessApiError, INVALID_INPUT, STORE_UNAVAILABLE } from '../errors.ts'
import { dashed } from './names.ts'
import { visible } from './text.ts'

/** The command line cannot be understood or lacks something; nothing was done. Ends the process with 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** What was asked for could not be done, or not all of it. Ends the process with 1. */
export class Failure extends Error {
  override readonly name = 'Failure'
}

/** How a process ends that has failed. */
export interface FailureReport {
  /** One line, without anything secret. */
  readonly line: string
  readonly exitCode: 1 | 2
}

/** What the way to a database can say, in words; see lib/postgres/sql-states.ts for more of its codes. */
const UNREACHABLE: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused; is it running?',
  ECONNRESET: 'the connection was broken',
  ENOTFOUND: 'the name of its host is not known',
  EAI_AGAIN: 'the name of its host could not be looked up',
  EHOSTUNREACH: 'its host cannot be reached',
  ENETUNREACH: 'its network cannot be reached',
  ENOENT: 'its socket is not there; is it running?',
  ETIMEDOUT: 'it did not answer in time',
  CONNECT_TIMEOUT: 'it did not answer in time',
  CONNECTION_CLOSED: 'the connection was closed',
  '28000': 'it does not let this user in',
  '28P01': 'it refused the password',
  '3D000': 'it has no database of that name',
  '53300': 'it has too many connections already',
  '57P03': 'it is starting up or shutting down',
}

/** Says in one line what went wrong; never a stack trace, never a connection string. */
export function describeFailure(error: unknown): FailureReport {
  const { text, exitCode } = judge(error)
  return { line: visible(text.replaceAll(/\s+/g, ' ').trim()), exitCode }
}

function judge(error: unknown): { readonly text: string; readonly exitCode: 1 | 2 } {
  if (!(error instanceof Error)) return { text: 'Unexpected failure', exitCode: 1 }
  if (error instanceof UsageError) return { text: error.message, exitCode: 2 }
  if (error instanceof Failure) return { text: error.message, exitCode: 1 }
  if (error instanceof BusinessApiError) return judgeExpected(error)
  const unreachable = UNREACHABLE[codeOf(error)]
  if (unreachable) return { text: `Cannot reach PostgreSQL: ${unreachable}`, exitCode: 1 }
  const [, option] = /^Cannot use option '(\w+)/.exec(error.message) ?? []
  // The options that commands pass on are flags here.
  if (option) return { text: error.message.replace(`option '${option}'`, dashed(option)), exitCode: 2 }
  return { text: error.message || `Unexpected failure: ${codeOf(error) || error.name}`, exitCode: 1 }
}

function judgeExpected(error: BusinessApiError): ReturnType<typeof judge> {
  if (error.code !== STORE_UNAVAILABLE || error.cause === undefined) {
    return { text: inFlags(error.message), exitCode: error.code === INVALID_INPUT ? 2 : 1 }
  }
  const code = codeOf(error.cause)
  return { text: `${error.message}: ${UNREACHABLE[code] ?? code}`, exitCode: 1 }
}

/** Fields of the typed calls whose flag has another name. */
const FLAG_OF_FIELD: Readonly<Record<string, string>> = {
  organizationId: '--organization',
  endpointId: '--endpoint',
  subjectId: '--subject',
  expiresAt: '--expires',
  overlapMs: '--overlap',
  headers: '--header',
  states: '--state',
}

/** A refusal of the typed calls, in what stands on the command line. */
function inFlags(message: string): string {
  return message
    .replaceAll(/(?<= as |; )\w+(?= (?:must|was refused))/g, (field) => FLAG_OF_FIELD[field] ?? dashed(field))
    .replace("the 'secretKeys'", 'the keys of BUSINESS_API_SECRET_KEYS')
}

/** The code that an error has from PostgreSQL or from the way to it; empty: none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
