import * as v from 'valibot'
import { BusinessApiError, refused, SECRET_UNAVAILABLE } from '../base/errors.ts'
import { isStorable } from '../base/fields.ts'
import { read, whole } from '../base/host-input.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { EndpointRef } from '../webhooks/claims.ts'
import type { SealedEndpoint, SealedForms } from '../webhooks/endpoints.ts'
import type { SecretSealer } from '../webhooks/secret-sealing.ts'

// --- Types ---

/** Options for `reseal`. */
export interface ResealOptions {
  /** Maximum number of endpoints to examine, from 1 to 1000. Defaults to 500. */
  readonly limit?: number
  /** `next` from the previous batch. Defaults to `null`, which starts with the first endpoint. */
  readonly after?: EndpointRef | null
}

/** The counts for one batch. */
export interface ResealReport {
  /** Number of endpoints examined. */
  readonly examined: number
  /** Number of endpoints whose signing secret or headers were resealed. */
  readonly resealed: number
  /** Number of unchanged endpoints with a credential that the configured keys can't open. */
  readonly unopened: number
  /** Number of endpoints whose credentials were changed by another call in the meantime. Left for the next round. */
  readonly changed: number
  /** `after` for the next batch, or `null` after the last endpoint. */
  readonly next: EndpointRef | null
}

/** Manages how endpoint credentials are sealed. Meant for operators. */
export interface SecretSettings {
  /**
   * Reseals the signing secrets and headers of all organizations with the first of the `secretKeys`. Keep calling
   * `reseal` with the previous batch's `next` until it's `null`. Then repeat the entire round until no endpoint is
   * counted as changed. You can stop at any point, repeat a round, and run it alongside deliveries, rotations and other
   * rounds. Previous secrets are dropped if their overlap period has ended. Since the secrets and headers themselves
   * don't change, there's no audit entry.
   * Make sure all processes have the new key before the first call, or they won't be able to open resealed credentials.
   * Plain text secrets are sealed if `allowPlaintextSecrets` is set, and counted as unopened if not.
   *
   * @throws `BusinessApiError` with code `secret_unavailable` if there are no `secretKeys`
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

/** Creates the resealing call. */
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

/** @returns `to` is `null` if everything is already sealed with the first key, or can't be opened */
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
