import { STATES } from '../../settings/deliveries.ts'
import type { DeliveryAttempt } from '../../webhooks/claims.ts'
import { type Delivery, type DeliveryDetails, RESPONSES } from '../../webhooks/deliveries.ts'
import { type Command, defineCommand, type Group } from '../command.ts'
import {
  EXAMPLE_ULID,
  FILTER_FLAGS,
  organization,
  PAGE_FLAGS,
  readDeliveryFilter,
  TABLE_FLAGS,
} from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { formatDuration, formatMoment } from '../durations.ts'
import { choice, choices } from '../flags.ts'
import { type Column, formatDetails, formatTable } from '../table.ts'
import { describeExcerpt, visibleLines } from '../text.ts'
import { cancel } from './cancellation.ts'
import { recover, redeliver } from './recovery.ts'

const EXAMPLE_ID = `dlv_${EXAMPLE_ULID}`

// --- list ---

const listDeliveries: Command = defineCommand({
  name: 'list',
  summary: "lists an organization's deliveries, newest first",
  about:
    'The states are pending, sending, delivered, failed, skipped, cancelled. With --response, each page inspects up to 5000 deliveries, so it can have fewer rows even if there are more.',
  flags: {
    organization,
    ...FILTER_FLAGS,
    state: choices('a,b', 'only in these states', STATES),
    response: choice('CLASS', 'only with this class of response to the last attempt', RESPONSES),
    ...PAGE_FLAGS,
    ...TABLE_FLAGS,
  },
  examples: {
    'failed deliveries since yesterday':
      'business-api-kit deliveries list --organization org_42 --state failed --since 24h',
    'a page for a program; the next page begins --before its next':
      'business-api-kit deliveries list --organization org_42 --limit 200 --json',
  },
  async run({ organization: owner, state, response, limit, before, wide, ...filter }, session) {
    const query = { ...readDeliveryFilter(filter), states: state, response, limit, before }
    const page = await withSettings(session, ({ deliveries: log }) => log.list(owner, query))
    await session.print(page, () => formatTable(COLUMNS, page.data, session.width(wide)))
    if (page.next !== null) session.note(`More: --before ${page.next}`)
  },
})

const COLUMNS: readonly Column<Delivery>[] = [
  { title: 'ID', value: ({ id }) => id },
  { title: 'TYPE', value: ({ type }) => type },
  { title: 'STATE', value: ({ state }) => state },
  { title: 'ATTEMPTS', value: ({ attempts }) => String(attempts) },
  { title: 'REASON', value: ({ reason }) => reason ?? '' },
  { title: 'ENDPOINT', value: ({ endpointId }) => endpointId },
  { title: 'CREATED', value: ({ createdAt }) => formatMoment(createdAt) },
]

// --- show ---

const show: Command = defineCommand({
  name: 'show',
  summary: 'shows a delivery with its attempts and body',
  argument: 'ID',
  flags: { organization, ...TABLE_FLAGS },
  examples: {
    'with an id of deliveries list': `business-api-kit deliveries show ${EXAMPLE_ID} --organization org_42`,
    'the body, byte for byte': `business-api-kit deliveries show ${EXAMPLE_ID} --organization org_42 --json | jq -rj .body`,
  },
  async run({ organization: owner, wide }, session) {
    const delivery = await withSettings(session, ({ deliveries: log }) => log.get(owner, session.argument))
    await session.print(delivery, () => describeDelivery(delivery, session.width(wide)))
  },
})

function describeDelivery(delivery: DeliveryDetails, width: number): string {
  const { id, eventId, type, endpointId, state, reason, createdAt, dueAt, finishedAt, attemptLog } = delivery
  const details = [
    ['Delivery', id],
    ['Event', `${eventId} (${type})`],
    ['Endpoint', endpointId],
    ['State', reason === null ? state : `${state} (${reason})`],
    ['Created', formatMoment(createdAt)],
    ['Due', dueAt && formatMoment(dueAt)],
    ['Finished', finishedAt && formatMoment(finishedAt)],
  ] as const
  const attempts =
    attemptLog.length === 0 ? 'No attempts yet.\n' : formatTable(ATTEMPT_COLUMNS, attemptLog, width)
  return `${formatDetails(details, width)}\n${attempts}\n${visibleLines(delivery.body)}\n`
}

const ATTEMPT_COLUMNS: readonly Column<DeliveryAttempt>[] = [
  { title: '#', value: ({ number }) => String(number) },
  { title: 'STARTED', value: ({ startedAt }) => formatMoment(startedAt) },
  { title: 'TOOK', value: ({ durationMs }) => formatDuration(durationMs) },
  {
    title: 'ANSWER',
    value: ({ status, error, location }) =>
      `${status ?? error ?? ''}${location === null ? '' : ` to ${location}`}`,
  },
  { title: 'DNS', value: ({ dnsMs }) => formatPart(dnsMs) },
  { title: 'CONNECT', value: ({ connectMs }) => formatPart(connectMs) },
  { title: 'TLS', value: ({ tlsMs }) => formatPart(tlsMs) },
  { title: 'FIRST BYTE', value: ({ firstByteMs }) => formatPart(firstByteMs) },
  {
    title: 'BODY',
    value: ({ bodyExcerpt }) => describeExcerpt(bodyExcerpt).replaceAll(/\s+/g, ' ').slice(0, 200),
  },
]

function formatPart(ms: number | null): string {
  return ms === null ? '' : formatDuration(ms)
}

/** The delivery log commands. */
export const deliveries: Group = {
  name: 'deliveries',
  summary: 'the delivery log of an organization',
  commands: [listDeliveries, show, redeliver, recover, cancel],
}
