import { withoutUndefined } from '../../base/host-input.ts'
import { eventTypes } from '../../resources/own-events.ts'
import { type Command, defineCommand } from '../command.ts'
import {
  actor,
  CHOICE_FLAGS,
  DESTINATION_FLAGS,
  EXAMPLE_ULID,
  maxFlag,
  organization,
  overlapFlag,
  splitChoices,
} from '../common-flags.ts'
import { CONFIRMATION_FLAGS, confirm } from '../confirmation.ts'
import { countEndpoint, ofRotatingSecret } from '../consequences.ts'
import { withSettings } from '../database.ts'
import { formatMoment } from '../durations.ts'
import { UsageError } from '../failure.ts'
import { choices, repeated, required, text, toggle } from '../flags.ts'
import { readSealing, SEALING_FLAGS } from '../sealing.ts'

// Commands that create a signing secret and show it once.

const EXAMPLE_ID = `we_${EXAMPLE_ULID}`

/** Registers an endpoint. */
export const add: Command = defineCommand({
  name: 'add',
  summary: 'registers a webhook endpoint',
  about: `Prints the signing secret, which is shown only once. The URL must be https and public, with port 443 or a port from 1024 on. It is checked now, and again at every attempt.`,
  flags: {
    organization,
    url: required(text('URL', 'where to send events')),
    types: choices('t,…', 'event types to send; default: all, including future types', eventTypes),
    header: repeated(
      "'NAME: VALUE'",
      'a header to send with every event; other users of this machine can read it here',
    ),
    standardWebhooks: toggle('send the headers of Standard Webhooks too, signed with the same secret'),
    secretStdin: toggle('use the signing secret that the subscriber already has: the first line of stdin'),
    ...CHOICE_FLAGS,
    ...DESTINATION_FLAGS,
    ...SEALING_FLAGS,
    maxEndpoints: maxFlag(
      'BUSINESS_API_MAX_ENDPOINTS',
      'maximum number of endpoints of the organization; default: 50',
    ),
    actor,
  },
  examples: {
    'an endpoint for two types of event':
      'business-api-kit endpoints add --organization org_42 --url https://hooks.example/in --types invoice.paid,client.created',
    'an endpoint of an earlier service, whose subscriber keeps the signing secret':
      'business-api-kit endpoints add --organization org_42 --url https://hooks.example/in --secret-stdin < secret.txt',
    'an endpoint on this machine, for development':
      'business-api-kit endpoints add --organization org_42 --url http://127.0.0.1:4000/ --allow-http --allow-private-networks',
  },
  async run({ organization: owner, header, secretStdin, actor: who, ...rest }, session) {
    const { choices: chosen, others } = splitChoices(rest)
    const sealing = readSealing(session, others)
    const headers = readHeaders(header)
    const given = secretStdin ? ((await session.terminal.stdin.readLine()) ?? '') : undefined
    const { id, secret } = await withSettings(
      session,
      (settings) =>
        settings.endpoints.register(
          owner,
          withoutUndefined({ ...chosen, secret: given, headers, actor: who }),
        ),
      { ...others, ...sealing },
    )
    if (secretStdin) {
      await session.print({ id }, () => `Registered ${id} with the given signing secret\n`)
      return
    }
    session.note(`Registered ${id}. Its signing secret is shown only once:`)
    await session.printOnce({ id, secret }, secret, `rotate the secret of ${id} to get one`)
  },
})

/** @throws `UsageError`. Never includes a header's value, since it may be a token */
function readHeaders(lines: readonly string[]): Record<string, string> {
  const headers = lines.map((line): [string, string] => {
    const [, name, value] = /^([^:\s]+):\s*(.*)$/.exec(line) ?? []
    if (name === undefined || !value) throw new UsageError("--header must be like 'Name: value'")
    return [name, value]
  })
  if (new Set(headers.map(([name]) => name.toLowerCase())).size < headers.length) {
    throw new UsageError('Cannot use --header because a name is repeated')
  }
  return Object.fromEntries(headers)
}

/** Rotates an endpoint's signing secret. */
export const rotate: Command = defineCommand({
  name: 'rotate',
  summary: "rotates an endpoint's signing secret",
  about: `Prints the new secret, which is shown only once. Both secrets sign during the overlap, so the subscriber has time to switch. With an overlap of 0, the previous secret expires immediately.`,
  argument: 'ID',
  flags: {
    organization,
    overlap: overlapFlag('both secrets sign'),
    ...SEALING_FLAGS,
    ...CONFIRMATION_FLAGS,
    actor,
  },
  examples: {
    'with a day to change over': `business-api-kit endpoints rotate ${EXAMPLE_ID} --organization org_42`,
    'at once, because the secret was leaked': `business-api-kit endpoints rotate ${EXAMPLE_ID} --organization org_42 --overlap 0`,
  },
  async run({ organization: owner, overlap, actor: who, yes, dryRun, ...rest }, session) {
    const { argument } = session
    // With an overlap, nothing stops working right away, so there's no need to ask.
    const asking = { yes: yes || overlap !== 0, dryRun }
    const rotated = await withSettings(
      session,
      async (settings) => {
        const outlook = () =>
          countEndpoint(settings, owner, argument, 'Cannot rotate the secret of a webhook endpoint')
        if (!(await confirm(session, asking, async () => ofRotatingSecret(await outlook(), overlap))))
          return null
        return settings.endpoints.rotateSecret(
          owner,
          argument,
          withoutUndefined({ overlapMs: overlap, actor: who }),
        )
      },
      readSealing(session, rest),
    )
    if (rotated === null) return
    const { id, secret, previousSecretExpiresAt } = rotated
    const overlapEnd = previousSecretExpiresAt
      ? `The previous secret signs too until ${formatMoment(previousSecretExpiresAt)}.`
      : 'The previous secret no longer signs.'
    session.note(`Rotated the signing secret of ${id}. ${overlapEnd} The new secret is shown only once:`)
    await session.printOnce({ id, secret }, secret, `rotate the secret of ${id} again`)
  },
})
