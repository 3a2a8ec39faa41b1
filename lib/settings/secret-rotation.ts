import { ALREADY_EXISTS, BusinessApiError } from '../base/errors.ts'
import { found } from '../base/host-input.ts'
import type { Ids } from '../base/ids.ts'
import type { BusinessApiStore } from '../business-store.ts'
import type { WebhookEndpoint } from '../webhooks/endpoints.ts'
import { generateSigningSecret, type SecretSealer } from '../webhooks/secret-sealing.ts'
import { type Acting, audited, type MakeEntry } from './calls.ts'
import { readRotateSecret } from './endpoint-inputs.ts'

/** Options of `rotateSecret`. */
export interface RotateSecretOptions extends Acting {
  /** The id of this rotation, `chg_<ulid>`: the same call sent again rotates no second time. Default a new id. */
  readonly id?: string
  /**
   * Milliseconds for which the previous secret signs too; 0: only the new secret signs. Default 24 hours, at most 30
   * days.
   */
  readonly overlapMs?: number
}

/** An endpoint with its new signing secret. */
export interface EndpointWithSecret extends WebhookEndpoint {
  /** The signing secret, shown only now: the store keeps a sealed form, and no call shows the secret again. */
  readonly secret: string
}

/** The parts with which secrets are rotated. */
export interface SecretRotationTools {
  readonly sealer: SecretSealer
  readonly ids: Ids
  readonly makeEntry: MakeEntry
}

/** Creates the call `rotateSecret`. */
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
      // Keys that do not open the present secret are not the delivery loop's keys, and the loop could not open the new
      // secret.
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
