import { ALREADY_EXISTS, BusinessApiError } from '../base/errors.ts'
import { found } from '../base/host-input.ts'
import type { Ids } from '../base/ids.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { WebhookEndpoint } from '../webhooks/endpoints.ts'
import { generateSigningSecret, type SecretSealer } from '../webhooks/secret-sealing.ts'
import { type Acting, audited, type MakeEntry } from './calls.ts'
import { readRotateSecret } from './endpoint-inputs.ts'

/** Options for `rotateSecret`. */
export interface RotateSecretOptions extends Acting {
  /** Id of this rotation, `chg_<ulid>`. Retries with the same id don't rotate again. Defaults to a new id. */
  readonly id?: string
  /** How long the previous secret keeps signing, in ms (up to 30 days), or 0 to stop now. Defaults to 24 hours. */
  readonly overlapMs?: number
}

/** An endpoint with its new signing secret. */
export interface EndpointWithSecret extends WebhookEndpoint {
  /** The signing secret. Only returned once, since the secret is stored sealed and no other call returns it. */
  readonly secret: string
}

/** Dependencies of the `rotateSecret` call. */
export interface SecretRotationTools {
  readonly sealer: SecretSealer
  readonly ids: Ids
  readonly makeEntry: MakeEntry
}

/** Creates the `rotateSecret` call. */
export function createSecretRotation(
  { endpoints }: Pick<BusinessApiStore, 'endpoints'>,
  { sealer, ids, makeEntry }: SecretRotationTools,
): (
  organizationId: string,
  endpointId: string,
  options?: RotateSecretOptions,
) => Promise<EndpointWithSecret> {
  return async (organizationId, endpointId, options) => {
    const call = readRotateSecret(organizationId, options, { endpointId })
    const { endpointId: id, id: changeId = ids('chg'), overlapMs } = call.input
    const ref = { organizationId: call.organizationId, endpointId: id }
    const secret = generateSigningSecret()
    const sealedSecret = sealer.seal(secret, ref)
    if (overlapMs > 0) {
      // If our keys can't open the current secret, the delivery loop has other keys and couldn't open the new one.
      const target = found(await endpoints.getTarget(ref.organizationId, id), call.action)
      for (const present of target.sealedSecrets.slice(0, 1)) sealer.unseal(present, ref)
    }
    const request = audited(makeEntry, call, 'endpoint.secret_rotated', id, { overlapMs })
    const rotation = await endpoints.rotateSecret({
      ...request,
      endpointId: id,
      changeId,
      sealedSecret,
      overlapMs,
    })
    const { outcome, endpoint } = found(rotation, call.action)
    if (outcome === 'rotated') return { secret, ...endpoint }
    throw new BusinessApiError(ALREADY_EXISTS, `${call.action} because its ${TAKEN}`, { record: endpoint })
  }
}

const TAKEN = 'id was used before: a signing secret is shown once only; rotate the secret under another id'
