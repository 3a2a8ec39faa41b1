import { withoutUndefined } from '../base/host-input.ts'
import type { RecoveryFilter } from '../settings/deliveries.ts'
import { eventTypeFlag } from './common-flags.ts'
import { parsePast } from './durations.ts'
import { UsageError } from './failure.ts'
import { parsed, text, type Values } from './flags.ts'

/** Flags that select deliveries. */
export const FILTER_FLAGS = {
  endpoint: text('ID', 'to this endpoint only'),
  subject: text('ID', 'about this record only, such as an invoice'),
  type: eventTypeFlag('of this type of event only'),
  since: parsed('WHEN', 'created since: 24h ago, 2026-01-31, or 2026-01-31T09:00:00Z', parsePast),
  until: parsed('WHEN', 'created before', parsePast),
}

/**
 * Reads the filter of the calls from the flags.
 *
 * @throws `UsageError` for a period without a moment
 */
export function readDeliveryFilter(flags: Values<typeof FILTER_FLAGS>): RecoveryFilter<string> {
  const { endpoint: endpointId, subject: subjectId, ...filter } = flags
  const { since, until } = filter
  if (since && until && until <= since) throw new UsageError('Give an --until that is later than --since')
  return withoutUndefined({ endpointId, subjectId, ...filter })
}
