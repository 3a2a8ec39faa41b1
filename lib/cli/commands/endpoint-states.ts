import type { DeveloperSettings } from '../../settings/developer-settings.ts'
import { type Command, defineCommand } from '../command.ts'
import { actor, EXAMPLE_ULID, organization } from '../common-flags.ts'
import { CONFIRMATION_FLAGS, confirm } from '../confirmation.ts'
import { countEndpoint, ofDisabling, ofRemoving } from '../consequences.ts'
import { withSettings } from '../database.ts'

// Commands that change whether an endpoint gets events.

function exampleOf(name: string) {
  return {
    purpose: 'with an id of endpoints list',
    line: `business-api-kit endpoints ${name} we_${EXAMPLE_ULID} --organization org_42`,
  }
}

/** Lets deliveries to an endpoint wait. */
export const pause: Command = defineMove(
  'pause',
  'makes deliveries to an endpoint wait',
  'Events are recorded meanwhile, and sent when the endpoint is resumed.',
)

/** Ends a pause. */
export const resume: Command = defineMove(
  'resume',
  'ends the pause of an endpoint, and sends the deliveries that wait',
)

/** Sends to a disabled endpoint again. */
export const enable: Command = defineMove(
  'enable',
  'sends events to a disabled endpoint again',
  'Also to an endpoint that was disabled because it kept failing. Deliveries that were skipped meanwhile stay skipped: see business-api-kit deliveries recover --help.',
)

function defineMove(name: 'pause' | 'resume' | 'enable', summary: string, about?: string): Command {
  return defineCommand({
    name,
    summary,
    ...(about === undefined ? {} : { about }),
    argument: 'ID',
    flags: { organization, actor },
    examples: [exampleOf(name)],
    async run({ organization: owner, ...acting }, session) {
      const move = ({ endpoints }: DeveloperSettings) => endpoints[name](owner, session.argument, acting)
      const endpoint = await withSettings(session, move)
      await session.print(endpoint, () => `${endpoint.id} is ${endpoint.state}\n`)
    },
  })
}

/** Stops sending to an endpoint. */
export const disable: Command = defineCommand({
  name: 'disable',
  summary: 'stops sending events to an endpoint',
  about:
    'Further events are recorded as skipped, and so are deliveries that wait: all of them can be recovered later.',
  argument: 'ID',
  flags: { organization, ...CONFIRMATION_FLAGS, actor },
  examples: [exampleOf('disable')],
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

/** Removes an endpoint. */
export const remove: Command = defineCommand({
  name: 'remove',
  summary: 'removes an endpoint and its secrets for good',
  about: 'Its delivery log stays until it is purged. Deliveries that wait are never sent.',
  argument: 'ID',
  flags: { organization, ...CONFIRMATION_FLAGS, actor },
  examples: [exampleOf('remove')],
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
