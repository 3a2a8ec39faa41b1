import type { Admission, AdmissionRequest } from '../access/admission.ts'
import type { Creation, CreationOutcome } from './creation.ts'

/** The outcome of a creation by the API. */
export type ApiCreationOutcome = CreationOutcome | { readonly outcome: 'no_business' }

/** The verdict on a request, together with the outcome of the creation that the request asks for. */
export interface AdmittedCreation {
  readonly admission: Admission
  /** Null unless admitted. */
  readonly outcome: ApiCreationOutcome | null
}

type Admit = (request: AdmissionRequest) => Promise<Admission>
type Create<NewRecord> = (creation: Creation<NewRecord>) => Promise<ApiCreationOutcome>

/**
 * Judges a request and creates a record for an admitted caller.
 *
 * @returns null when nothing was done: the request is to be judged, and the record created, in two steps
 */
export type AdmitAndCreate<NewRecord> = (
  request: AdmissionRequest,
  creation: Creation<NewRecord>,
) => Promise<AdmittedCreation | null>

/** The two verbs of a store in one step. */
export interface OneStep<NewRecord> {
  /** Returns whether a request would be judged in one step now: a request over its limit is not worth reading the body. */
  isReady(request: AdmissionRequest): boolean
  readonly admitAndCreate: AdmitAndCreate<NewRecord>
}

/** A store's side of {@link OneStep}. */
interface Admitting extends Pick<OneStep<never>, 'isReady'> {
  readonly admit: Admit
}

/** By the function that creates; each with the function that admits. */
const oneSteps = new WeakMap<object, OneStep<never> & Admitting>()

/** Declares that a store can do in one step what two of its verbs do one after the other. */
export function declareOneStep<NewRecord>(
  { admit, isReady }: Admitting,
  create: Create<NewRecord>,
  admitAndCreate: AdmitAndCreate<NewRecord>,
): void {
  oneSteps.set(create, { admit, isReady, admitAndCreate })
}

/**
 * Finds the one step in place of two verbs.
 *
 * @returns undefined when the store has none, or the host has put a function of its own in the place of one of the verbs
 */
export function oneStepOf<NewRecord>(
  admit: Admit,
  create: Create<NewRecord>,
): OneStep<NewRecord> | undefined {
  const known = oneSteps.get(create)
  return known?.admit === admit ? (known as unknown as OneStep<NewRecord>) : undefined
}
