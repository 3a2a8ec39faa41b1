import { EVENT_TYPES, type EventType } from '../../resources/event-catalogue.ts'
import { type Command, defineCommand } from '../command.ts'
import { actor, DESTINATION_FLAGS, EXAMPLE_ULID, organization } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { UsageError } from '../failure.ts'
import { choice, choices, type Flag, text } from '../flags.ts'
import { readSecretKeys } from '../sealing.ts'

const ALL = 'all'

/** Null for every type, also future ones. */
const types: Flag<readonly EventType[] | null | undefined> = (() => {
  const some = choices('t,…', "the types of event that it wants, or 'all', also future ones", EVENT_TYPES)
  return { ...some, read: (texts, source) => (texts[0] === ALL ? null : some.read(texts, source)) }
})()

/** Changes an endpoint. */
export const update: Command = defineCommand({
  name: 'update',
  summary: 'changes the URL, the types, the description or the signing of an endpoint',
  about:
    'Everything else stays as it is. --standard-webhooks on needs the BUSINESS_API_SECRET_KEYS of endpoints add, because a signing secret that Standard Webhooks cannot decode is refused: rotate the secret first. The change holds for the next attempt of every delivery, also of deliveries that already wait.',
  argument: 'ID',
  flags: {
    organization,
    url: text('URL', 'where to send events'),
    types,
    description: text('TEXT', 'a name for people'),
    standardWebhooks: choice('on|off', 'send the headers of Standard Webhooks too', ['on', 'off']),
    ...DESTINATION_FLAGS,
    actor,
  },
  examples: [
    {
      purpose: 'the subscriber has moved',
      line: `business-api-kit endpoints update we_${EXAMPLE_ULID} --organization org_42 --url https://new.example/in`,
    },
    {
      purpose: 'every type from now on',
      line: `business-api-kit endpoints update we_${EXAMPLE_ULID} --organization org_42 --types all`,
    },
  ],
  async run(
    { organization: owner, url, types: wanted, description, standardWebhooks, actor: who, ...options },
    session,
  ) {
    const isOn = standardWebhooks === undefined ? undefined : standardWebhooks === 'on'
    const changes = { url, types: wanted, description, standardWebhooks: isOn }
    if (Object.values(changes).every((change) => change === undefined)) {
      throw new UsageError('Give a change: --url, --types, --description or --standard-webhooks')
    }
    // The secret is only looked at, and never stored: one that is stored unsealed may be looked at too.
    const sealing = isOn ? { secretKeys: readSecretKeys(session), allowPlaintextSecrets: true } : {}
    const endpoint = await withSettings(
      session,
      ({ endpoints }) => endpoints.update(owner, session.argument, { ...changes, actor: who }),
      { ...options, ...sealing },
    )
    await session.print(endpoint, () => `Updated ${endpoint.id}\n`)
  },
})
