import { withoutUndefined } from '../base/host-input.ts'
import type { RecoveryFilter } from '../settings/deliveries.ts'
import { eventTypeFlag } from './common-flags.ts'
import { parsePast } from './durations.ts'
import { UsageError } from './failure.ts'
import * as flag from './flags.ts'

/** Flags for filtering deliveries. */
export const FILTER_FLAGS = {
  endpoint: flag.text('ID', 'only to this endpoint'),
  subject: flag.text('ID', 'only about this record, for example an invoice'),
  type: eventTypeFlag('only of this event type'),
  since: flag.parsed('WHEN', 'created since: 24h ago, 2026-01-31, or 2026-01-31T09:00:00Z', parsePast),
  until: flag.parsed('WHEN', 'created before', parsePast),
}

/**
 * Converts the flags to a filter.
 *
 * @throws `UsageError` if the period is empty
 */
export function readDeliveryFilter(flags: flag.Values<typeof FILTER_FLAGS>): RecoveryFilter<string> {
  const { endpoint: endpointId, subject: subjectId, ...filter } = flags
  const { since, until } = filter
  if (since && until && until <= since) throw new UsageError('Pass an --until that is later than --since')
  return withoutUndefined({ endpointId, subjectId, ...filter })
}
