import type { Delivery, DeliveryAttempt, DeliveryDetails, DeliveryState } from '../deliveries.ts'
import type { DeveloperSettings } from '../settings/developer-settings.ts'
import { type Command, defineCommand, type Group } from './command.ts'
import { actor, EXAMPLE_ULID, organization, PAGE_FLAGS } from './common-flags.ts'
import { withSettings } from './database.ts'
import { FILTER_FLAGS, readFilter } from './delivery-filter.ts'
import { formatDuration, formatMoment } from './durations.ts'
import { list } from './flags.ts'
import { recover, redeliver } from './recovery.ts'
import type { Session } from './session.ts'
import { type Column, formatDetails, formatTable } from './table.ts'
import { visibleLines } from './text.ts'

const EXAMPLE_ID = `dlv_${EXAMPLE_ULID}`

// --- List ---

const listDeliveries: Command = defineCommand({
  name: 'list',
  summary: 'shows the delivery log of an organization, newest first',
  about: 'States: pending, in_flight, delivered, dead_lettered, skipped, cancelled.',
  flags: {
    organization,
    ...FILTER_FLAGS,
    state: list('a,b', 'in one of these states only'),
    ...PAGE_FLAGS,
  },
  examples: [
    {
      purpose: 'what has failed for good since yesterday',
      line: 'business-api deliveries list --organization org_42 --state dead_lettered --since 24h',
    },
    {
      purpose: 'a page for a program, which passes its next as --before',
      line: 'business-api deliveries list --organization org_42 --limit 200 --json',
    },
  ],
  async run({ organization: owner, state, limit, before, ...filter }, session) {
    const query = { ...readFilter(filter), states: state as DeliveryState[] | undefined, limit, before }
    const page = await withSettings(session, ({ deliveries: log }) => log.list(owner, query))
    await session.print(page, () => formatTable(COLUMNS, page.data, session.width))
    if (page.next !== null) session.note(`More: --before ${page.next}`)
  },
})

const COLUMNS: readonly Column<Delivery>[] = [
  { title: 'ID', value: ({ id }) => id },
  { title: 'TYPE', value: ({ type }) => type, isFlexible: true },
  { title: 'STATE', value: ({ state }) => state },
  { title: 'ATTEMPTS', value: ({ attempts }) => String(attempts) },
  { title: 'REASON', value: ({ reason }) => reason ?? '', isFlexible: true },
  { title: 'ENDPOINT', value: ({ endpointId }) => endpointId, isOptional: true },
  { title: 'CREATED', value: ({ createdAt }) => formatMoment(createdAt), isOptional: true },
]

// --- Show ---

const show: Command = defineCommand({
  name: 'show',
  summary: 'shows a delivery with all its attempts and what was sent',
  argument: 'ID',
  flags: { organization },
  examples: [
    {
      purpose: 'its id is in deliveries list',
      line: `business-api deliveries show ${EXAMPLE_ID} --organization org_42`,
    },
    {
      purpose: 'the body as it was sent, byte for byte',
      line: `business-api deliveries show ${EXAMPLE_ID} --organization org_42 --json | jq -rj .body`,
    },
  ],
  async run({ organization: owner }, session) {
    const delivery = await withSettings(session, ({ deliveries: log }) => log.get(owner, session.argument))
    await session.print(delivery, () => describeDelivery(delivery, session))
  },
})

function describeDelivery(delivery: DeliveryDetails, { width }: Session): string {
  const { id, eventId, type, endpointId, state, reason, createdAt, dueAt, finishedAt, attemptLog } = delivery
  const details = formatDetails([
    ['Delivery', id],
    ['Event', `${eventId} (${type})`],
    ['Endpoint', endpointId],
    ['State', reason === null ? state : `${state} (${reason})`],
    ['Created', formatMoment(createdAt)],
    ['Due', dueAt && formatMoment(dueAt)],
    ['Finished', finishedAt && formatMoment(finishedAt)],
  ])
  const attempts =
    attemptLog.length === 0 ? 'No attempts yet.\n' : formatTable(ATTEMPT_COLUMNS, attemptLog, width)
  return `${details}\n${attempts}\n${visibleLines(delivery.body)}\n`
}

const ATTEMPT_COLUMNS: readonly Column<DeliveryAttempt>[] = [
  { title: '#', value: ({ number }) => String(number) },
  { title: 'STARTED', value: ({ startedAt }) => formatMoment(startedAt) },
  { title: 'TOOK', value: ({ durationMs }) => formatDuration(durationMs) },
  { title: 'ANSWER', value: ({ status, error }) => String(status ?? error ?? '') },
  { title: 'DNS', value: ({ dnsMs }) => formatPart(dnsMs), isOptional: true },
  { title: 'CONNECT', value: ({ connectMs }) => formatPart(connectMs), isOptional: true },
  { title: 'TLS', value: ({ tlsMs }) => formatPart(tlsMs), isOptional: true },
  { title: 'FIRST BYTE', value: ({ firstByteMs }) => formatPart(firstByteMs), isOptional: true },
  {
    title: 'BODY',
    value: ({ bodyExcerpt }) => bodyExcerpt.replaceAll(/\s+/g, ' ').slice(0, 200),
    isFlexible: true,
  },
]

function formatPart(ms: number | null): string {
  return ms === null ? '' : formatDuration(ms)
}

// --- Cancel ---

const cancel: Command = defineCommand({
  name: 'cancel',
  summary: 'has a delivery not sent that is still waiting',
  about:
    'Also one that waits for its next attempt or for a paused endpoint; one that is being sent cannot be taken back.',
  argument: 'ID',
  flags: { organization, actor },
  examples: [
    {
      purpose: 'its id is in deliveries list --state pending',
      line: `business-api deliveries cancel ${EXAMPLE_ID} --organization org_42`,
    },
  ],
  async run({ organization: owner, ...acting }, session) {
    const cancelled = ({ deliveries: log }: DeveloperSettings) => log.cancel(owner, session.argument, acting)
    const delivery = await withSettings(session, cancelled)
    await session.print(delivery, () => `${delivery.id} is ${delivery.state}\n`)
  },
})

/** The delivery log of organizations. */
export const deliveries: Group = {
  name: 'deliveries',
  summary: 'the delivery log of an organization',
  commands: [listDeliveries, show, redeliver, recover, cancel],
}
