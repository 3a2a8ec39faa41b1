import type { StoredSecrets } from '../postgres/inspector.ts'
import { createSecretSealer } from '../secret-sealing.ts'

/** Each takes some 20 microseconds to open, and few databases have more endpoints. */
export const SECRETS_LOOKED_AT = 10_000

/** How signing secrets are stored. */
export interface SecretsJudgement {
  readonly total: number
  /** Sealed, with none of the keys, or not what they were any more. */
  readonly unopened: number
  /** Stored unsealed. */
  readonly open: number
}

/** Tries to open the stored signing secrets; what they are is forgotten at once. */
export function judgeSecrets(
  stored: readonly StoredSecrets[],
  secretKeys: readonly string[],
): SecretsJudgement {
  const sealer = createSecretSealer({ secretKeys })
  const all = stored.flatMap(({ sealedSecrets, ...ref }) => sealedSecrets.map((sealed) => ({ sealed, ref })))
  const isOpened = ({ sealed, ref }: (typeof all)[number]): boolean => {
    try {
      sealer.unseal(sealed, ref)
      return true
    } catch {
      return false
    }
  }
  return {
    total: all.length,
    unopened: all.filter((secret) => !isOpened(secret)).length,
    open: all.filter(({ sealed }) => sealed.startsWith('plain.')).length,
  }
}
