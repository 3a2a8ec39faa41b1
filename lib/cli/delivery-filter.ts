import { withoutUndefined } from '../base/host-input.ts'
import type { RecoveryFilter } from '../settings/deliveries.ts'
import { eventTypeFlag } from './common-flags.ts'
import { parsePast } from './durations.ts'
import { UsageError } from './failure.ts'
import * as flag from './flags.ts'

/** Flags that select deliveries. */
export const FILTER_FLAGS = {
  endpoint: flag.text('ID', 'to this endpoint only'),
  subject: flag.text('ID', 'about this record only, such as an invoice'),
  type: eventTypeFlag('of this type of event only'),
  since: flag.parsed('WHEN', 'created since: 24h ago, 2026-01-31, or 2026-01-31T09:00:00Z', parsePast),
  until: flag.parsed('WHEN', 'created before', parsePast),
}

/**
 * Reads the filter of the calls from the flags.
 *
 * @throws `UsageError` for a period without a moment
 */
export function readDeliveryFilter(flags: flag.Values<typeof FILTER_FLAGS>): RecoveryFilter<string> {
  const { endpoint: endpointId, subject: subjectId, ...filter } = flags
  const { since, until } = filter
  if (since && until && until <= since) throw new UsageError('Give an --until that is later than --since')
  return withoutUndefined({ endpointId, subjectId, ...filter })
}
