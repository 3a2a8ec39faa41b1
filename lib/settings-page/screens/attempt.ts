import type { DeliveryAttempt } from '../../webhooks/deliveries.ts'
import type { Context } from '../context.ts'
import { type Html, html } from '../html.ts'
import { codeBlock } from '../views/copyable.ts'
import { facts } from '../views/facts.ts'
import { answerText } from './delivery-words.ts'

/** Shows the result of an attempt: the answer in words, the time of each phase, and the beginning of the answer's body. */
export function attemptFacts(
  { t, format }: Context,
  attempt: Omit<DeliveryAttempt, 'number' | 'startedAt'>,
): Html {
  const { status, error, durationMs, dnsMs, connectMs, tlsMs, firstByteMs, bodyExcerpt } = attempt
  const phases = [
    [t`look-up`, dnsMs],
    [t`connect`, connectMs],
    [t`TLS`, tlsMs],
    [t`first byte`, firstByteMs],
  ] as const
  const parts = phases.flatMap(([name, ms]) => (ms === null ? [] : [`${name} ${format.duration(ms)}`]))
  return html`${facts([
    [t`Answer`, answerText(t, status, error)],
    [t`Took`, `${format.duration(durationMs)}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`],
  ])}${bodyExcerpt !== '' && codeBlock(t, bodyExcerpt, t`The beginning of the answer`)}`
}
