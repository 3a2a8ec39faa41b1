import { EVENT_TYPES, type EventType } from '../../resources/event-catalogue.ts'
import { type Command, defineCommand } from '../command.ts'
import { actor, DESTINATION_FLAGS, EXAMPLE_ULID, organization } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { UsageError } from '../failure.ts'
import { choices, type Flag, text } from '../flags.ts'

const ALL = 'all'

/** Null for every type, also future ones. */
const types: Flag<readonly EventType[] | null | undefined> = (() => {
  const some = choices('t,…', "the types of event that it wants, or 'all', also future ones", EVENT_TYPES)
  return { ...some, read: (texts, source) => (texts[0] === ALL ? null : some.read(texts, source)) }
})()

/** Changes an endpoint. */
export const update: Command = defineCommand({
  name: 'update',
  summary: 'changes the URL, the types or the description of an endpoint',
  about:
    'Everything else stays as it is. The change holds for the next attempt of every delivery, also of deliveries that already wait.',
  argument: 'ID',
  flags: {
    organization,
    url: text('URL', 'where to send events'),
    types,
    description: text('TEXT', 'a name for people'),
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
  async run({ organization: owner, url, types: wanted, description, actor: who, ...options }, session) {
    const changes = { url, types: wanted, description }
    if (Object.values(changes).every((change) => change === undefined)) {
      throw new UsageError('Give a change: --url, --types or --description')
    }
    const endpoint = await withSettings(
      session,
      ({ endpoints }) => endpoints.update(owner, session.argument, { ...changes, actor: who }),
      options,
    )
    await session.print(endpoint, () => `Updated ${endpoint.id}\n`)
  },
})
