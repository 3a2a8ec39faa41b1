import type { Admission, AdmissionRequest } from '../../access/admission.ts'
import type { RecordDatabase } from '../connection/database.ts'
import { ask, defineStatement } from './statement.ts'

/** The values by which a request is judged. */
export interface AdmissionValues {
  readonly keyDigest: string
  readonly scope: string
  readonly keyPerSecond: number | null
  readonly keyBurst: number | null
  readonly organizationPerSecond: number | null
  readonly organizationBurst: number | null
}

/** The first parameters of every function that judges a request: see sql/0010-rate-limits.sql. */
export const ADMISSION_ARGUMENTS = `
  @keyDigest::text, @scope::text, @keyPerSecond::float8, @keyBurst::int, @organizationPerSecond::float8,
  @organizationBurst::int`

/** Reads the values for {@link ADMISSION_ARGUMENTS} from a request. */
export function admissionValues({ keyDigest, scope, rateLimits }: AdmissionRequest): AdmissionValues {
  return {
    keyDigest,
    scope,
    keyPerSecond: rateLimits?.key.perSecond ?? null,
    keyBurst: rateLimits?.key.burst ?? null,
    organizationPerSecond: rateLimits?.organization.perSecond ?? null,
    organizationBurst: rateLimits?.organization.burst ?? null,
  }
}

const ADMIT = defineStatement<AdmissionValues, 'admission'>({
  answer: { admission: 'admission' },
  from: `from business_api.admit(${ADMISSION_ARGUMENTS})`,
})

/** Judges a request and takes a token from both buckets. */
export async function admit(database: RecordDatabase, request: AdmissionRequest): Promise<Admission> {
  const { admission } = await ask(database, request.organizationHint ?? null, ADMIT, admissionValues(request))
  return parseAdmission(admission)
}

/** Reads the verdict of `business_api.admit`. */
export function parseAdmission(text: string | null): Admission {
  return JSON.parse(text ?? 'null') as Admission
}
