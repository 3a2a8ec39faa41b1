import type { ResealReport, SecretSettings } from '../../settings/resealing.ts'
import type { EndpointRef } from '../../webhooks/claims.ts'
import { type Command, defineCommand } from '../command.ts'
import { countOf } from '../confirmation.ts'
import { withSettings } from '../database.ts'
import { Failure, UsageError } from '../failure.ts'
import { toggle } from '../flags.ts'
import { readSecretKeys } from '../sealing.ts'

/** Reseals stored credentials with the first key. */
export const reseal: Command = defineCommand({
  name: 'reseal',
  summary: 'seals the signing secrets and headers of all organizations under the first sealing key',
  about: `To change BUSINESS_API_SECRET_KEYS: put the new key first in every process, run this command, then remove the old key. Secrets and headers stay the same, deliveries continue, and you can stop and repeat the command at any time.
Exits with 1 where a credential does not open: each stays as it is.`,
  onShards: 'in turn',
  flags: {
    allowPlaintextSecrets: toggle('also seal what was stored unsealed, before there was a key'),
  },
  examples: {
    'after a new key was added first': 'business-api-kit endpoints reseal',
    'after the first key was set': 'business-api-kit endpoints reseal --allow-plaintext-secrets',
  },
  async run({ allowPlaintextSecrets }, session) {
    const secretKeys = readSecretKeys(session)
    if (secretKeys.length === 0) {
      throw new UsageError(
        'Set BUSINESS_API_SECRET_KEYS to the keys, the new one first (openssl rand -base64 32)',
      )
    }
    const report = await withSettings(
      session,
      ({ secrets }) => session.progress('Resealing').during(resealAll(secrets)),
      { secretKeys, allowPlaintextSecrets },
    )
    const { examined, resealed, unopened, changed } = report
    await session.print(report, () => {
      return `Resealed ${resealed} of ${endpointsOf(examined)}\n`
    })
    if (unopened > 0) {
      throw new Failure(
        `Cannot open the credentials of ${endpointsOf(unopened)}: set all sealing keys in BUSINESS_API_SECRET_KEYS` +
          (allowPlaintextSecrets
            ? ''
            : ', and pass --allow-plaintext-secrets for those that are stored unsealed'),
      )
    }
    if (changed > 0) {
      throw new Failure(`Another program was changing ${endpointsOf(changed)}: run the command again`)
    }
  },
})

const endpointsOf = (count: number): string => countOf(count, 'endpoint', 'endpoints', false)

/** The totals of one round over all endpoints. */
type Totals = Omit<ResealReport, 'next'>

/** Maximum number of rounds. An endpoint that other calls keep changing is left for the next run. */
const ROUNDS_MAX = 3

async function resealAll(secrets: SecretSettings, round = 1, resealedBefore = 0): Promise<Totals> {
  const totals = await resealOnce(secrets)
  const resealed = resealedBefore + totals.resealed
  if (totals.changed > 0 && round < ROUNDS_MAX) return resealAll(secrets, round + 1, resealed)
  return { ...totals, resealed }
}

async function resealOnce(secrets: SecretSettings): Promise<Totals> {
  const totals = { examined: 0, resealed: 0, unopened: 0, changed: 0 }
  let after: EndpointRef | null = null
  do {
    const { next, ...part } = await secrets.reseal({ after })
    totals.examined += part.examined
    totals.resealed += part.resealed
    totals.unopened += part.unopened
    totals.changed += part.changed
    after = next
  } while (after !== null)
  return totals
}
