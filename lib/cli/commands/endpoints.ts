import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import { type Command, defineCommand, type Group } from '../command.ts'
import { organization, TABLE_FLAGS } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { formatDuration } from '../durations.ts'
import { type Column, formatTable } from '../table.ts'
import { backfill } from './endpoint-backfill.ts'
import { reseal } from './endpoint-reseal.ts'
import { add, rotate } from './endpoint-secrets.ts'
import { disable, enable, pause, remove, resume } from './endpoint-states.ts'
import { test } from './endpoint-test.ts'
import { update } from './endpoint-update.ts'

const listEndpoints: Command = defineCommand({
  name: 'list',
  summary: 'shows the webhook endpoints of an organization',
  about: 'Of headers the names are shown: their values are stored sealed.',
  flags: { organization, ...TABLE_FLAGS },
  examples: [
    { purpose: 'all endpoints, newest first', line: 'business-api-kit endpoints list --organization org_42' },
    {
      purpose: 'the ids of disabled endpoints',
      line: `business-api-kit endpoints list --organization org_42 --json | jq -r '.data[] | select(.state == "disabled").id'`,
    },
  ],
  async run({ organization: owner, wide }, session) {
    const data = await withSettings(session, ({ endpoints: calls }) => calls.list(owner))
    await session.print({ data }, () => formatTable(COLUMNS, data, session.width(wide)))
  },
})

const COLUMNS: readonly Column<WebhookEndpoint>[] = [
  { title: 'ID', value: ({ id }) => id },
  { title: 'STATE', value: describeState },
  { title: 'FAILURES', value: describeFailures },
  { title: 'URL', value: ({ url }) => url },
  { title: 'TYPES', value: ({ types }) => types?.join(', ') ?? 'all' },
  { title: 'STANDARD', value: ({ standardWebhooks }) => (standardWebhooks ? 'yes' : '') },
  { title: 'HEADERS', value: ({ headerNames }) => headerNames.join(', ') },
  { title: 'DESCRIPTION', value: ({ description }) => description },
]

function describeState({ state, disabledReason }: WebhookEndpoint): string {
  return disabledReason === null ? state : `${state} (${disabledReason})`
}

function describeFailures({ failures, failingSince }: WebhookEndpoint): string {
  if (failingSince === null) return String(failures)
  return `${failures} in ${formatDuration(Math.max(0, Date.now() - Date.parse(failingSince)))}`
}

/** Webhook endpoints of organizations. */
export const endpoints: Group = {
  name: 'endpoints',
  summary: 'the destinations of the events of an organization',
  commands: [
    add,
    listEndpoints,
    update,
    test,
    backfill,
    rotate,
    pause,
    resume,
    enable,
    disable,
    remove,
    reseal,
  ],
}
