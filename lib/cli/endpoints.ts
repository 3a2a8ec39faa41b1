import type { WebhookEndpoint } from '../endpoints.ts'
import type { DeveloperSettings } from '../settings/developer-settings.ts'
import { type Command, defineCommand, type Group } from './command.ts'
import { actor, EXAMPLE_ULID, organization } from './common-flags.ts'
import { withSettings } from './database.ts'
import { formatDuration } from './durations.ts'
import { add, rotate } from './endpoint-secrets.ts'
import { test } from './endpoint-test.ts'
import { type Column, formatTable } from './table.ts'

const EXAMPLE_ID = `we_${EXAMPLE_ULID}`

// --- List ---

const listEndpoints: Command = defineCommand({
  name: 'list',
  summary: 'shows the webhook endpoints of an organization',
  about: 'Of headers only the names are shown: a value may be a token.',
  flags: { organization },
  examples: [
    { purpose: 'all endpoints, newest first', line: 'business-api endpoints list --organization org_42' },
    {
      purpose: 'the ids of those that are disabled',
      line: `business-api endpoints list --organization org_42 --json | jq -r '.data[] | select(.state == "disabled").id'`,
    },
  ],
  async run({ organization: owner }, session) {
    const found = await withSettings(session, ({ endpoints: calls }) => calls.list(owner))
    const data = found.map(withoutValues)
    await session.print({ data }, () => formatTable(COLUMNS, data, session.width))
  },
})

/** An endpoint that may be shown anywhere. */
interface ShownEndpoint extends Omit<WebhookEndpoint, 'headers'> {
  readonly headerNames: readonly string[]
}

function withoutValues({ headers, ...endpoint }: WebhookEndpoint): ShownEndpoint {
  return { ...endpoint, headerNames: Object.keys(headers).sort() }
}

const COLUMNS: readonly Column<ShownEndpoint>[] = [
  { title: 'ID', value: ({ id }) => id },
  { title: 'STATE', value: describeState },
  { title: 'URL', value: ({ url }) => url, isFlexible: true },
  { title: 'TYPES', value: ({ types }) => types?.join(',') ?? 'all', isFlexible: true },
  { title: 'FAILURES', value: describeFailures, isOptional: true },
  { title: 'HEADERS', value: ({ headerNames }) => headerNames.join(','), isFlexible: true, isOptional: true },
  { title: 'DESCRIPTION', value: ({ description }) => description, isFlexible: true },
]

function describeState({ state, disabledReason }: ShownEndpoint): string {
  return disabledReason === null ? state : `${state} (${disabledReason})`
}

function describeFailures({ failures, failingSince }: ShownEndpoint): string {
  if (failingSince === null) return String(failures)
  return `${failures} in ${formatDuration(Math.max(0, Date.now() - Date.parse(failingSince)))}`
}

// --- States ---

type Move = 'pause' | 'resume' | 'enable' | 'disable'

const pause: Command = defineMove(
  'pause',
  'lets deliveries to an endpoint wait',
  'Events are recorded meanwhile, and sent when it is resumed.',
)

const resume: Command = defineMove('resume', 'ends the pause of an endpoint: what has been waiting is sent')

const enable: Command = defineMove(
  'enable',
  'sends to an endpoint again, whoever had disabled it',
  'What was skipped while it was disabled stays so: see business-api deliveries recover --help.',
)

const disable: Command = defineMove(
  'disable',
  'sends nothing to an endpoint any more',
  'Events are recorded as skipped meanwhile, and those that wait are skipped too, so that they can be recovered later.',
)

function defineMove(name: Move, summary: string, about?: string): Command {
  return defineCommand({
    name,
    summary,
    ...(about === undefined ? {} : { about }),
    argument: 'ID',
    flags: { organization, actor },
    examples: [
      {
        purpose: 'its id is in endpoints list',
        line: `business-api endpoints ${name} ${EXAMPLE_ID} --organization org_42`,
      },
    ],
    async run({ organization: owner, ...acting }, session) {
      const move = ({ endpoints: calls }: DeveloperSettings) => calls[name](owner, session.argument, acting)
      const endpoint = withoutValues(await withSettings(session, move))
      await session.print(endpoint, () => `${endpoint.id} is ${endpoint.state}\n`)
    },
  })
}

const remove: Command = defineCommand({
  name: 'remove',
  summary: 'removes an endpoint and its secrets for good',
  about: 'Its delivery log stays until it is purged; what was waiting for it is skipped.',
  argument: 'ID',
  flags: { organization, actor },
  examples: [
    {
      purpose: 'its id is in endpoints list',
      line: `business-api endpoints remove ${EXAMPLE_ID} --organization org_42`,
    },
  ],
  async run({ organization: owner, ...acting }, session) {
    const { argument: id } = session
    await withSettings(session, ({ endpoints: calls }) => calls.remove(owner, id, acting))
    await session.print({ id }, () => `Removed ${id}\n`)
  },
})

/** Webhook endpoints of organizations. */
export const endpoints: Group = {
  name: 'endpoints',
  summary: 'where an organization wants its events',
  commands: [add, listEndpoints, test, rotate, pause, resume, enable, disable, remove],
}
