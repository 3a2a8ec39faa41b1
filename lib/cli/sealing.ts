import type { StoredSecrets } from '../postgres/schema/inspector.ts'
import { createSecretSealer, type SecretSealingOptions } from '../webhooks/secret-sealing.ts'
import { UsageError } from './failure.ts'
import { type Flag, toggle } from './flags.ts'
import type { Session } from './session.ts'

// Keys come from the environment only, because every user of the machine can read a command line.

/** Flags of commands that store a signing secret. */
export const SEALING_FLAGS: { readonly allowPlaintextSecrets: Flag<boolean> } = {
  allowPlaintextSecrets: toggle('without BUSINESS_API_SECRET_KEYS: store the signing secret unencrypted'),
}

/** The keys of BUSINESS_API_SECRET_KEYS; empty when it is not set. @throws `UsageError` for an invalid one */
export function readSecretKeys({ terminal }: Session): readonly string[] {
  const given = terminal.env.BUSINESS_API_SECRET_KEYS
  const secretKeys = given ? given.split(',').map((key) => key.trim()) : []
  try {
    createSecretSealer({ secretKeys })
  } catch {
    throw new UsageError(
      'Cannot use BUSINESS_API_SECRET_KEYS because it must be keys of 32 random bytes in base64, base64url or hex, with commas between them',
    )
  }
  return secretKeys
}

/** Reads the sealing of a new signing secret. @throws `UsageError` without keys and without `--allow-plaintext-secrets` */
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

// --- The stored secrets ---

/** Maximum number of endpoints whose credentials are checked. Each takes some 20 microseconds, and few databases have more. */
export const SECRETS_CHECKED_MAX = 10_000

/** The numbers of stored signing secrets and headers, in all and by form. */
interface SecretsJudgement {
  readonly total: number
  /** Sealed with a key that is not given, or changed since. */
  readonly unopened: number
  /** Stored unsealed. */
  readonly open: number
}

/** Tries to open the stored signing secrets and headers, and discards them at once. */
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
