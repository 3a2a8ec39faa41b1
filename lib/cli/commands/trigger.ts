import { createIds } from '../../base/ids.ts'
import { suggest } from '../../base/suggest.ts'
import { createPlatform } from '../../platform/platform.ts'
import type { EventType } from '../../resources/event-catalogue.ts'
import { exampleData } from '../../resources/example-data.ts'
import { eventTypes, findEvent } from '../../resources/own-events.ts'
import type { Service } from '../../service.ts'
import { createDeveloperSettings } from '../../settings/developer-settings.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import { type Command, defineCommand } from '../command.ts'
import { organization } from '../common-flags.ts'
import { CONFIRMATION_FLAGS, type Consequence, confirm, countOf } from '../confirmation.ts'
import { withStore } from '../database.ts'
import { UsageError } from '../failure.ts'

/** Publishes an example event. */
export const trigger: Command = defineCommand({
  name: 'trigger',
  summary: 'publishes an event with example data',
  about: `A real event: it goes to every endpoint that wants the type, with retries, and appears in the logs. Its id begins with evt_test_, so subscribers recognize a test. Asks first if there is such an endpoint. To test one endpoint without an event: business-api-kit endpoints test.`,
  argument: 'TYPE',
  flags: { organization, ...CONFIRMATION_FLAGS },
  examples: {
    'beside business-api-kit listen': 'business-api-kit trigger invoice.paid --organization org_42',
    'who would get it?': 'business-api-kit trigger client.created --organization org_42 --dry-run',
  },
  async run({ organization: owner, yes, dryRun }, session) {
    const { service } = session
    const type = readType(session.argument, service)
    const published = await withStore(session, async (store) => {
      const { endpoints } = createDeveloperSettings(store)
      const example = findEvent(service, type)?.example ?? exampleData(type)
      // Disabled endpoints count as well. Their deliveries are skipped and can be recovered later.
      const wanting = (await endpoints.list(owner)).filter(
        ({ types }) => types === null || types.includes(type),
      )
      const asking = { yes: yes || wanting.length === 0, dryRun }
      if (!(await confirm(session, asking, async () => ofTriggering(type, wanting)))) return null
      const id = createIds()('evt_test')
      // `publish` checks the example against its type's schema.
      await createPlatform(store).publish(owner, type, example as never, { id })
      return { id, type, endpoints: wanting.length }
    })
    if (published === null) return
    const recipients = countOf(published.endpoints, 'endpoint', 'endpoints', false)
    await session.print(published, () => `Published ${published.id} (${type}) for ${recipients}\n`)
  },
})

/** @throws `UsageError` */
function readType(given: string, service: Service): EventType {
  const types = eventTypes(service)
  // The host's own types depend on its service, which the compiler doesn't know about.
  if (types.includes(given)) return given as EventType
  const suggestion = suggest(given, types)
  throw new UsageError(
    suggestion === ''
      ? `TYPE must be one of ${types.join(', ')}`
      : `Cannot use TYPE because '${given}' is unknown${suggestion}`,
  )
}

function ofTriggering(type: EventType, endpoints: readonly WebhookEndpoint[]): Consequence {
  const names = endpoints.map(
    ({ id, url, state }) => `${id} (${url}${state === 'enabled' ? '' : `, ${state}`})`,
  )
  const recipients = names.length === 0 ? 'no endpoint: none wants the type' : names.join(', ')
  return {
    text: `Publishes an example of ${type}, which goes to ${recipients}.`,
    facts: { type, endpoints: endpoints.map(({ id, url }) => ({ id, url })) },
  }
}
