import * as v from 'valibot'
import { BusinessApiError, refused, SECRET_UNAVAILABLE } from '../base/errors.ts'
import { isStorable } from '../base/fields.ts'
import { read, whole } from '../base/host-input.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { EndpointRef } from '../webhooks/claims.ts'
import type { SealedEndpoint, SealedForms } from '../webhooks/endpoints.ts'
import type { SecretSealer } from '../webhooks/secret-sealing.ts'

// --- Types ---

/** Options of `reseal`. */
export interface ResealOptions {
  /** Endpoints to examine at most, 1 to 1000. Default 500. */
  readonly limit?: number
  /** The `next` of the previous part. Default null: from the first endpoint. */
  readonly after?: EndpointRef | null
}

/** The counts of one part. */
export interface ResealReport {
  /** Endpoints examined. */
  readonly examined: number
  /** Endpoints with a signing secret or headers that were sealed anew. */
  readonly resealed: number
  /** Endpoints with a credential that the host's keys do not open; left unchanged. */
  readonly unopened: number
  /** Endpoints with credentials that another call changed at the same moment; left to the next round. */
  readonly changed: number
  /** The beginning of the next part; null after the last endpoint. */
  readonly next: EndpointRef | null
}

/** The sealed credentials of endpoints, for operators. */
export interface SecretSettings {
  /**
   * Seals all organizations' signing secrets and headers with the first of the `secretKeys`, one part after another: call `reseal` with
   * the `next` of the previous part until `next` is null, and repeat the round while a report counts endpoints as changed. A round can
   * be stopped at any time, repeated, and run beside deliveries, rotations and other rounds. Previous secrets are dropped after their
   * overlap. No secret and no header changes, so no audit entry is left.
   *
   * Before the first call every process needs the new key in its ring: old processes cannot open a form sealed under
   * the new key. Secrets that are stored open are sealed where `allowPlaintextSecrets` is set, else counted as
   * unopened.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` without `secretKeys`
   */
  reseal(options?: ResealOptions): Promise<ResealReport>
}

// --- Inputs ---

const ACTION = 'Cannot reseal secrets'

const afterRequirement = 'must be null, or the next of a previous part: { organizationId, endpointId }'

const ResealSchema = v.object({
  limit: v.exactOptional(whole(1, 1000), 500),
  after: v.exactOptional(v.nullable(v.custom<EndpointRef>(isRef, afterRequirement)), null),
})

function isRef(value: unknown): boolean {
  const { organizationId, endpointId, ...others } = Object(value)
  return (
    Object.keys(others).length === 0 &&
    [organizationId, endpointId].every((id) => typeof id === 'string' && isStorable(id))
  )
}

// --- Calls ---

/** Creates the calls about sealed credentials. */
export function createSecretSettings(
  { endpoints }: Pick<BusinessApiStore, 'endpoints'>,
  sealer: SecretSealer,
): SecretSettings {
  return {
    async reseal(options = {}) {
      const { limit, after } = read(ResealSchema, options, ACTION)
      if (!sealer.hasKeys) {
        throw refused(
          ACTION,
          SECRET_UNAVAILABLE,
          "option 'secretKeys' is empty: pass a key, for example from openssl rand -base64 32",
        )
      }
      const part = await endpoints.listSealed(limit, after)
      const report = { examined: part.length, resealed: 0, unopened: 0, changed: 0 }
      for (const endpoint of part) {
        const { organizationId, endpointId } = endpoint
        const { to, isUnopened } = sealAnew(sealer, endpoint)
        if (isUnopened) report.unopened++
        if (to === null) continue
        const isExchanged = await endpoints.exchangeSealed({ organizationId, endpointId, from: endpoint, to })
        report[isExchanged ? 'resealed' : 'changed']++
      }
      const last = part.length === limit ? part.at(-1) : undefined
      const next = last ? { organizationId: last.organizationId, endpointId: last.endpointId } : null
      return { ...report, next }
    },
  }
}

/** @returns `to`: null when all is sealed under the first key, or does not open */
function sealAnew(
  sealer: SecretSealer,
  endpoint: SealedEndpoint,
): { readonly to: SealedForms | null; readonly isUnopened: boolean } {
  const { sealedSecret, sealedHeaders, isPreviousExpired } = endpoint
  const previousSealedSecret = isPreviousExpired ? null : endpoint.previousSealedSecret
  let isUnopened = false

  function reseal<Form extends string | null>(form: Form, seal: () => Form): Form {
    if (form === null || sealer.isCurrent(form)) return form
    try {
      return seal()
    } catch (error) {
      if (!(error instanceof BusinessApiError)) throw error
      isUnopened = true
      return form
    }
  }

  const secretAnew = (form: string) => sealer.seal(sealer.unseal(form, endpoint), endpoint)
  const headersAnew = () => sealer.sealHeaders(sealer.unsealHeaders(endpoint, endpoint), endpoint)
  const to: SealedForms = {
    sealedSecret: reseal(sealedSecret, () => secretAnew(sealedSecret)),
    previousSealedSecret: reseal(previousSealedSecret, () => secretAnew(previousSealedSecret ?? '')),
    sealedHeaders: reseal(sealedHeaders, () => headersAnew().sealedHeaders),
  }
  const isSame =
    to.sealedSecret === sealedSecret &&
    to.previousSealedSecret === endpoint.previousSealedSecret &&
    to.sealedHeaders === sealedHeaders
  return { to: isSame ? null : to, isUnopened }
}
