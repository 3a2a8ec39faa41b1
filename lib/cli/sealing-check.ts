import type { StoredSecrets } from '../postgres/schema/inspector.ts'
import { createSecretSealer } from '../webhooks/secret-sealing.ts'

/** Endpoints whose credentials are opened at most. Each takes some 20 microseconds, and few databases have more endpoints. */
export const SECRETS_LOOKED_AT = 10_000

/** The numbers of stored signing secrets and headers, in all and by form. */
export interface SecretsJudgement {
  readonly total: number
  /** Sealed with a key that is not given, or changed since. */
  readonly unopened: number
  /** Stored unsealed. */
  readonly open: number
}

/** Tries to open the stored signing secrets and headers; the opened texts are dropped at once. */
export function judgeSecrets(
  stored: readonly StoredSecrets[],
  secretKeys: readonly string[],
): SecretsJudgement {
  const sealer = createSecretSealer({ secretKeys, allowPlaintextSecrets: true })
  const all = stored.flatMap((endpoint) => [
    ...endpoint.sealedSecrets.map((sealed) => ({ sealed, open: () => sealer.unseal(sealed, endpoint) })),
    ...(endpoint.sealedHeaders === null
      ? []
      : [{ sealed: endpoint.sealedHeaders, open: () => sealer.unsealHeaders(endpoint, endpoint) }]),
  ])
  return {
    total: all.length,
    unopened: all.filter(({ open }) => !isOpened(open)).length,
    open: all.filter(({ sealed }) => sealed.startsWith('plain.')).length,
  }
}

function isOpened(open: () => unknown): boolean {
  try {
    open()
    return true
  } catch {
    return false
  }
}
