import { eventTypes } from '../../resources/own-events.ts'
import type { DeveloperSettings } from '../../settings/developer-settings.ts'
import { CHOICES } from '../../webhooks/endpoint-choices.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import { type Command, defineCommand, type Group } from '../command.ts'
import {
  actor,
  CHOICE_FLAGS,
  DESTINATION_FLAGS,
  EXAMPLE_ULID,
  organization,
  splitChoices,
  TABLE_FLAGS,
} from '../common-flags.ts'
import { CONFIRMATION_FLAGS, confirm } from '../confirmation.ts'
import { countEndpoint, ofDisabling, ofRemoving } from '../consequences.ts'
import { withSettings } from '../database.ts'
import { formatDuration } from '../durations.ts'
import { UsageError } from '../failure.ts'
import { choice, choices, type Flag, text } from '../flags.ts'
import { dashed } from '../names.ts'
import { readSecretKeys } from '../sealing.ts'
import { type Column, formatTable } from '../table.ts'
import { backfill } from './endpoint-backfill.ts'
import { reseal } from './endpoint-reseal.ts'
import { add, rotate } from './endpoint-secrets.ts'
import { test } from './endpoint-test.ts'

const listEndpoints: Command = defineCommand({
  name: 'list',
  summary: "lists an organization's webhook endpoints",
  about: 'Header values are stored sealed, so only the names are shown.',
  flags: { organization, ...TABLE_FLAGS },
  examples: {
    'all endpoints, newest first': 'business-api-kit endpoints list --organization org_42',
    'the ids of disabled endpoints': `business-api-kit endpoints list --organization org_42 --json | jq -r '.data[] | select(.state == "disabled").id'`,
  },
  async run({ organization: owner, wide }, session) {
    const data = await withSettings(session, ({ endpoints: calls }) => calls.list(owner))
    await session.print({ data }, () => formatTable(COLUMNS, data, session.width(wide)))
  },
})

/** Choices that have their own column below. */
const OWN = ['url', 'types', 'standardWebhooks', 'maxPerSecond', 'description']
const FURTHER = Object.keys(CHOICES).filter((name) => !OWN.includes(name))

const COLUMNS: readonly Column<WebhookEndpoint>[] = [
  { title: 'ID', value: ({ id }) => id },
  { title: 'STATE', value: describeState },
  { title: 'FAILURES', value: describeFailures },
  { title: 'URL', value: ({ url }) => url },
  { title: 'TYPES', value: ({ types }) => types?.join(', ') ?? 'all' },
  { title: 'STANDARD', value: ({ standardWebhooks }) => (standardWebhooks ? 'yes' : '') },
  { title: 'MAX/S', value: ({ maxPerSecond: most }) => String(most ?? '') },
  ...FURTHER.map((name) => ({
    title: name.toUpperCase(),
    value: (one: object) => String(Reflect.get(one, name) ?? ''),
  })),
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

// Commands that change an endpoint's state

function exampleOf(name: string) {
  const line = `business-api-kit endpoints ${name} we_${EXAMPLE_ULID} --organization org_42`
  return { 'with an id of endpoints list': line }
}

const pause: Command = defineMove(
  'pause',
  'pauses an endpoint: its deliveries stay pending',
  'Events are recorded meanwhile, and sent when the endpoint is resumed.',
)

const resume: Command = defineMove('resume', 'resumes an endpoint and sends its pending deliveries')

const enable: Command = defineMove(
  'enable',
  'enables a disabled endpoint',
  'Works also after an endpoint was disabled for failing. Deliveries skipped in the meantime stay skipped: see business-api-kit deliveries recover --help.',
)

function defineMove(name: 'pause' | 'resume' | 'enable', summary: string, about?: string): Command {
  return defineCommand({
    name,
    summary,
    ...(about === undefined ? {} : { about }),
    argument: 'ID',
    flags: { organization, actor },
    examples: exampleOf(name),
    async run({ organization: owner, ...acting }, session) {
      const move = ({ endpoints }: DeveloperSettings<string, string>) =>
        endpoints[name](owner, session.argument, acting)
      const endpoint = await withSettings(session, move)
      await session.print(endpoint, () => `${endpoint.id} is ${endpoint.state}\n`)
    },
  })
}

const disable: Command = defineCommand({
  name: 'disable',
  summary: 'disables an endpoint: its deliveries are skipped',
  about: 'New events and pending deliveries are skipped. You can recover them later.',
  argument: 'ID',
  flags: { organization, ...CONFIRMATION_FLAGS, actor },
  examples: exampleOf('disable'),
  async run({ organization: owner, actor: who, ...asking }, session) {
    const { argument: id } = session
    const disabled = await withSettings(session, async (settings) => {
      const goesOn = await confirm(session, asking, async () => {
        return ofDisabling(await countEndpoint(settings, owner, id, 'Cannot disable a webhook endpoint'))
      })
      return goesOn ? settings.endpoints.disable(owner, id, { actor: who }) : null
    })
    if (disabled === null) return
    const endpoint = disabled
    await session.print(endpoint, () => `${endpoint.id} is ${endpoint.state}\n`)
  },
})

const remove: Command = defineCommand({
  name: 'remove',
  summary: 'permanently removes an endpoint and its secrets',
  about: 'Its deliveries stay in the log until they are purged. Pending deliveries are skipped.',
  argument: 'ID',
  flags: { organization, ...CONFIRMATION_FLAGS, actor },
  examples: exampleOf('remove'),
  async run({ organization: owner, actor: who, ...asking }, session) {
    const { argument: id } = session
    const isRemoved = await withSettings(session, async (settings) => {
      const goesOn = await confirm(session, asking, async () => {
        return ofRemoving(await countEndpoint(settings, owner, id, 'Cannot remove a webhook endpoint'))
      })
      if (goesOn) await settings.endpoints.remove(owner, id, { actor: who })
      return goesOn
    })
    if (isRemoved) await session.print({ id }, () => `Removed ${id}\n`)
  },
})

const ALL = 'all'

/** `null` means all types, including future ones. */
const types: Flag<readonly string[] | null | undefined> = (() => {
  const help = "event types to send, or 'all', including future types"
  const some = choices('t,…', help, eventTypes, `, or ${ALL}`)
  return { ...some, read: (texts, ...about) => (texts[0] === ALL ? null : some.read(texts, ...about)) }
})()

const update: Command = defineCommand({
  name: 'update',
  summary: "changes an endpoint's URL, types, signing and more",
  about:
    'Everything else stays as it is. --standard-webhooks on needs the BUSINESS_API_SECRET_KEYS of endpoints add, because a signing secret that Standard Webhooks cannot decode is rejected: rotate the secret first. The change applies to the next attempt of every delivery, pending ones included.',
  argument: 'ID',
  flags: {
    organization,
    url: text('URL', 'where to send events'),
    types,
    standardWebhooks: choice('on|off', 'send the headers of Standard Webhooks too', ['on', 'off']),
    ...CHOICE_FLAGS,
    ...DESTINATION_FLAGS,
    actor,
  },
  examples: {
    'the subscriber has moved': `business-api-kit endpoints update we_${EXAMPLE_ULID} --organization org_42 --url https://new.example/in`,
    'every type from now on': `business-api-kit endpoints update we_${EXAMPLE_ULID} --organization org_42 --types all`,
  },
  async run({ organization: owner, standardWebhooks, actor: who, ...rest }, session) {
    const isOn = standardWebhooks === undefined ? undefined : standardWebhooks === 'on'
    const { choices: given, others } = splitChoices(rest)
    const changes = { ...given, standardWebhooks: isOn }
    if (Object.values(changes).every((change) => change === undefined)) {
      const names = Object.keys(CHOICES).map(dashed)
      throw new UsageError(`Pass a change: ${names.slice(0, -1).join(', ')} or ${names.at(-1)}`)
    }
    // Plain text is fine here because the secret is only read and not stored.
    const sealing = isOn ? { secretKeys: readSecretKeys(session), allowPlaintextSecrets: true } : {}
    const endpoint = await withSettings(
      session,
      ({ endpoints }) => endpoints.update(owner, session.argument, { ...changes, actor: who }),
      { ...others, ...sealing },
    )
    await session.print(endpoint, () => `Updated ${endpoint.id}\n`)
  },
})

/** The webhook endpoint commands. */
export const endpoints: Group = {
  name: 'endpoints',
  summary: "an organization's webhook endpoints",
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
