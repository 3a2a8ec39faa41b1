import type { EventDetails } from '../../settings/events.ts'
import type { Delivery } from '../../webhooks/deliveries.ts'
import type { LoggedEvent } from '../../webhooks/event-log.ts'
import { type Command, defineCommand, type Group } from '../command.ts'
import { actor, EXAMPLE_ULID, eventTypeFlag, organization, PAGE_FLAGS, TABLE_FLAGS } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { formatMoment, parsePast } from '../durations.ts'
import { parsed, required, text, toggle } from '../flags.ts'
import { type Column, formatDetails, formatTable } from '../table.ts'
import { visibleLines } from '../text.ts'

const EXAMPLE_ID = `evt_${EXAMPLE_ULID}`

// --- list ---

const listEvents: Command = defineCommand({
  name: 'list',
  summary: "lists an organization's events, newest first",
  about:
    'Includes events that were not sent to any endpoint. With --type, each page inspects up to 5000 events, so it can have fewer rows even if there are more.',
  flags: {
    organization,
    subject: text('ID', "only about this record: its ID, or an invoice's or proposal's number"),
    type: eventTypeFlag('only of this type'),
    since: parsed('WHEN', 'published since: 24h ago, 2026-01-31, or 2026-01-31T09:00:00Z', parsePast),
    until: parsed('WHEN', 'published before', parsePast),
    withBody: toggle('each event with its body, in --json'),
    ...PAGE_FLAGS,
    ...TABLE_FLAGS,
  },
  examples: {
    'the newest events': 'business-api-kit events list --organization org_42',
    'the payments of the last day, for a program':
      'business-api-kit events list --organization org_42 --type invoice.paid --since 24h --json',
  },
  async run({ organization: owner, wide, subject, ...query }, session) {
    const page = await withSettings(session, ({ events: log }) =>
      log.list(owner, { subjectId: subject, ...query }),
    )
    await session.print(page, () => formatTable(COLUMNS, page.data, session.width(wide)))
    if (page.next !== null) session.note(`More: --before ${page.next}`)
  },
})

const COLUMNS: readonly Column<LoggedEvent>[] = [
  { title: 'ID', value: ({ id }) => id },
  { title: 'TYPE', value: ({ type }) => type },
  { title: 'PUBLISHED', value: ({ createdAt }) => formatMoment(createdAt) },
  { title: 'DELIVERIES', value: describeDeliveries },
]

/** Returns something like `2 delivered, 1 pending`. */
function describeDeliveries({ deliveries }: LoggedEvent): string {
  const counts = Object.entries(deliveries).map(([state, count]) => `${count} ${state}`)
  return counts.length === 0 ? 'none' : counts.join(', ')
}

// --- show ---

const show: Command = defineCommand({
  name: 'show',
  summary: 'shows an event with its deliveries and body',
  argument: 'ID',
  flags: { organization, ...TABLE_FLAGS },
  examples: {
    'with an id of events list': `business-api-kit events show ${EXAMPLE_ID} --organization org_42`,
    'the body, byte for byte': `business-api-kit events show ${EXAMPLE_ID} --organization org_42 --json | jq -rj .body`,
  },
  async run({ organization: owner, wide }, session) {
    const event = await withSettings(session, ({ events: log }) => log.get(owner, session.argument))
    await session.print(event, () => describeEvent(event, session.width(wide)))
  },
})

function describeEvent(
  { id, type, createdAt, onlyEndpointId, deliveryLog, body }: EventDetails,
  width: number,
): string {
  const details = [
    ['Event', id],
    ['Type', type],
    ['Published', formatMoment(createdAt)],
    ['Only for', onlyEndpointId && `${onlyEndpointId} (a backfill)`],
  ] as const
  const deliveries =
    deliveryLog.length === 0
      ? 'No deliveries: no endpoint subscribes to this type.\n'
      : formatTable(DELIVERY_COLUMNS, deliveryLog, width)
  return `${formatDetails(details, width)}\n${deliveries}\n${visibleLines(body)}\n`
}

const DELIVERY_COLUMNS: readonly Column<Delivery>[] = [
  { title: 'DELIVERY', value: ({ id }) => id },
  { title: 'ENDPOINT', value: ({ endpointId }) => endpointId },
  { title: 'STATE', value: ({ state }) => state },
  { title: 'ATTEMPTS', value: ({ attempts }) => String(attempts) },
  { title: 'LAST ANSWER', value: ({ lastStatus, lastError }) => String(lastStatus ?? lastError ?? '') },
  { title: 'REASON', value: ({ reason }) => reason ?? '' },
]

// --- redeliver ---

const redeliver: Command = defineCommand({
  name: 'redeliver',
  summary: 'resends an event to one endpoint',
  about:
    "The endpoint can be newer than the event and doesn't have to be subscribed to its type. The event keeps its id, and a running business-api-kit deliver sends it.",
  argument: 'ID',
  flags: { organization, endpoint: required(text('ID', 'the endpoint')), actor },
  examples: {
    'with an id of events list': `business-api-kit events redeliver ${EXAMPLE_ID} --endpoint we_${EXAMPLE_ULID} --organization org_42`,
  },
  async run({ organization: owner, endpoint: endpointId, ...acting }, session) {
    const delivery = await withSettings(session, ({ events: log }) =>
      log.redeliver(owner, session.argument, { endpointId, ...acting }),
    )
    await session.print(delivery, () => `${delivery.id} is ${delivery.state}\n`)
  },
})

/** The event commands. */
export const events: Group = {
  name: 'events',
  summary: "an organization's events, also without an endpoint",
  commands: [listEvents, show, redeliver],
}
