import { eventTypes } from '../../resources/own-events.ts'
import { createWebhookSender } from '../../sender/sender.ts'
import type { Service } from '../../service.ts'
import { attempt, createInterruption, type Interruption, makeRequest } from '../../webhooks/attempt.ts'
import { ENDPOINT_DEFAULTS } from '../../webhooks/endpoint-choices.ts'
import {
  createSecretSealer,
  generateSigningSecret,
  type SecretSealer,
} from '../../webhooks/secret-sealing.ts'
import { isSuccess } from '../../webhooks/webhook-answer.ts'
import type { WebhookAnswer, WebhookSender } from '../../webhooks/webhook-sender.ts'
import type { EventRecord } from '../../writes/event-envelope.ts'
import { type Command, defineCommand } from '../command.ts'
import { organization } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { formatDuration, formatNow } from '../durations.ts'
import { UsageError } from '../failure.ts'
import { choices, required, text, toggle } from '../flags.ts'
import { formatCount } from '../progress.ts'
import { type Watch, watchUntilStopped } from '../watching.ts'

/** Forwards an organization's events to a program on this machine. */
export const listen: Command = defineCommand({
  name: 'listen',
  summary: "forwards an organization's events to a URL on this machine as they happen",
  about: `For development: needs no endpoint, and changes neither endpoints nor deliveries. Prints a signing secret at the start and signs the forwarded events with it, like deliveries. Each event is sent once, one after the other, without retries. Events of transactions that commit late are forwarded too; backfilled events aren't.`,
  flags: {
    organization,
    forwardTo: required(text('URL', 'where to send the events: http://localhost:4000/hooks')),
    types: choices('t,…', 'only of these types; default: all', eventTypes),
    standardWebhooks: toggle('send the headers of Standard Webhooks too'),
  },
  examples: {
    'to a receiver under development':
      'business-api-kit listen --organization org_42 --forward-to http://localhost:4000/hooks',
  },
  async run({ organization: owner, forwardTo, types, standardWebhooks }, session) {
    const url = readUrl(forwardTo)
    const { service } = session
    const secret = generateSigningSecret()
    const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
    const forwarder = createForwarder(sender, { owner, url, secret, service, standardWebhooks })
    const counts = { forwarded: 0, failed: 0 }
    try {
      await withSettings(session, (settings) =>
        watchUntilStopped(session, async (watch) => {
          const feed = settings.events.follow(owner, {
            types,
            intervalMs: INTERVAL_MS,
            signal: watch.signal,
            onError: watch.onUnavailable,
            onBegin: () =>
              watch.print(
                { event: 'started', secret, forwardTo: url },
                () => `Forwarding to ${url}. Ctrl-C or SIGTERM stops. Signing secret: ${secret}`,
              ),
          })
          for await (const event of feed) {
            const answer = await forwarder.forward(event, watch.signal)
            if (answer === null) break
            counts[isSuccess(answer) ? 'forwarded' : 'failed']++
            await printForwarded(watch, event, answer)
          }
        }),
      )
    } finally {
      await sender.close({ timeoutMs: 0 })
    }
    await session.print(
      { event: 'stopped', ...counts },
      () => `Stopped: ${formatCount(counts.forwarded)} forwarded, ${formatCount(counts.failed)} failed\n`,
    )
  },
})

/** Poll interval in milliseconds. */
const INTERVAL_MS = 500

/** @throws `UsageError` */
function readUrl(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : null
  if (url !== null && ['http:', 'https:'].includes(url.protocol) && url.username === '') return url.href
  throw new UsageError('--forward-to must be a URL like http://localhost:4000/hooks')
}

interface Forwarder {
  /** @returns the response, or `null` if a signal interrupted the attempt */
  forward(event: EventRecord, signal: AbortSignal): Promise<WebhookAnswer | null>
}

function createForwarder(
  sender: WebhookSender,
  given: {
    readonly owner: string
    readonly url: string
    readonly secret: string
    readonly service: Service
    readonly standardWebhooks: boolean
  },
): Forwarder {
  const { owner: organizationId, url, secret, service, standardWebhooks } = given
  // No need to seal a secret that never leaves this process.
  const sealer: SecretSealer = createSecretSealer({ allowPlaintextSecrets: true })
  const ref = { organizationId, endpointId: 'listen' }
  const target = {
    ...ENDPOINT_DEFAULTS,
    url,
    headerNames: [],
    sealedHeaders: null,
    standardWebhooks,
    sealedSecrets: [sealer.seal(secret, ref)],
  }
  const interruption: Interruption = createInterruption()
  return {
    async forward({ id: eventId, type, body }, signal) {
      if (signal.aborted) return null
      const now = Math.floor(Date.now() / 1000)
      const request = makeRequest({ ...ref, ...target, eventId, type, body }, sealer, service, now)
      const interrupt = (): void => interruption.interrupt()
      signal.addEventListener('abort', interrupt, { once: true })
      try {
        const answer = await attempt(sender, request, interruption, () => {})
        return signal.aborted && answer.status === null ? null : answer
      } finally {
        signal.removeEventListener('abort', interrupt)
      }
    },
  }
}

/** Prints something like `09:00:01Z  failed: 503  34 ms  invoice.paid  evt_01K…`. */
function printForwarded(watch: Watch, { id, type }: EventRecord, answer: WebhookAnswer): Promise<void> {
  const { status, error, durationMs } = answer
  const word = String(status ?? error ?? 'no answer')
  const isForwarded = isSuccess(answer)
  return watch.print(
    { event: isForwarded ? 'forwarded' : 'failed', id, type, status, error, durationMs },
    () =>
      [formatNow(), isForwarded ? word : `failed: ${word}`, formatDuration(durationMs), type, id].join('  '),
  )
}
