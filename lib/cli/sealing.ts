import type { StoredSecrets } from '../postgres/schema/inspector.ts'
import { createSecretSealer, type SecretSealingOptions } from '../webhooks/secret-sealing.ts'
import { UsageError } from './failure.ts'
import { type Flag, toggle } from './flags.ts'
import type { Session } from './session.ts'

// We only read keys from the environment, because command lines are visible to all users of a machine.

/** Flags for commands that store a signing secret. */
export const SEALING_FLAGS: { readonly allowPlaintextSecrets: Flag<boolean> } = {
  allowPlaintextSecrets: toggle('without BUSINESS_API_SECRET_KEYS: store the signing secret unencrypted'),
}

/**
 * Returns the keys in BUSINESS_API_SECRET_KEYS, or an empty list if it's not set.
 *
 * @throws `UsageError` if a key is invalid
 */
export function readSecretKeys({ terminal }: Session): readonly string[] {
  const given = terminal.env.BUSINESS_API_SECRET_KEYS
  const secretKeys = given ? given.split(',').map((key) => key.trim()) : []
  try {
    createSecretSealer({ secretKeys })
  } catch {
    throw new UsageError(
      'BUSINESS_API_SECRET_KEYS must be keys of 32 random bytes in base64, base64url or hex, with commas between them',
    )
  }
  return secretKeys
}

/**
 * Returns the options for sealing a new secret.
 *
 * @throws `UsageError` if there are no keys and `--allow-plaintext-secrets` isn't set
 */
export function readSealing(
  session: Session,
  { allowPlaintextSecrets }: { readonly allowPlaintextSecrets: boolean },
): SecretSealingOptions {
  const secretKeys = readSecretKeys(session)
  if (secretKeys.length > 0 || allowPlaintextSecrets) return { secretKeys, allowPlaintextSecrets }
  throw new UsageError(
    'Set BUSINESS_API_SECRET_KEYS to seal the signing secret with (a key: openssl rand -base64 32), ' +
      'or pass --allow-plaintext-secrets',
  )
}

// --- Stored secrets ---

/** Maximum number of endpoints to check. Each one takes about 20 microseconds, and few databases have more. */
export const SECRETS_CHECKED_MAX = 10_000

interface SecretsJudgement {
  readonly total: number
  /** Sealed with a key we don't have, or modified. */
  readonly unopened: number
  /** Stored as plain text. */
  readonly open: number
}

/** Tries to open all stored signing secrets and headers, and immediately discards the results. */
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
