import type { EventType } from '../events.ts'
import { type Command, defineCommand } from './command.ts'
import {
  actor,
  DESTINATION_FLAGS,
  EXAMPLE_ULID,
  headerPrefix,
  organization,
  overlapFlag,
} from './common-flags.ts'
import { withSettings } from './database.ts'
import { formatMoment } from './durations.ts'
import { UsageError } from './failure.ts'
import { list, repeated, required, text } from './flags.ts'
import { readSealing, SEALING_FLAGS } from './sealing.ts'

// What makes a signing secret, and shows it this once.

const EXAMPLE_ID = `we_${EXAMPLE_ULID}`

/** Registers an endpoint. */
export const add: Command = defineCommand({
  name: 'add',
  summary: 'registers where an organization wants its events',
  about: `Prints the signing secret, this once: it is stored sealed, and no command shows it again.
The URL must be https, public, on port 443 or from 1024 on. It is judged now and again at every attempt.`,
  flags: {
    organization,
    url: required(text('URL', 'where to send events')),
    types: list('t,…', 'the types of event it wants; default: every type, also those to come'),
    description: text('TEXT', 'what people call it'),
    header: repeated(
      "'NAME: VALUE'",
      'a header to send with every event; other users of this machine can read it here',
    ),
    headerPrefix,
    ...DESTINATION_FLAGS,
    ...SEALING_FLAGS,
    actor,
  },
  examples: [
    {
      purpose: 'an endpoint for two types of event',
      line: 'business-api endpoints add --organization org_42 --url https://hooks.example/in --types invoice.paid,client.created',
    },
    {
      purpose: 'one on this machine, while developing',
      line: 'business-api endpoints add --organization org_42 --url http://127.0.0.1:4000/ --allow-http --allow-private-networks',
    },
  ],
  async run({ organization: owner, url, types, description, header, actor: who, ...rest }, session) {
    const sealing = readSealing(session, rest)
    const headers = readHeaders(header)
    const { id, secret } = await withSettings(
      session,
      (settings) =>
        settings.endpoints.register(owner, {
          url,
          // A type that is none is refused there, with the names of all.
          types: types as EventType[] | undefined,
          description,
          headers,
          actor: who,
        }),
      { ...rest, ...sealing },
    )
    session.note(`Registered ${id}. Its signing secret is shown this once:`)
    await session.printOnce({ id, secret }, secret, `rotate the secret of ${id} to get one`)
  },
})

/** @throws `UsageError` that repeats no value, as it may be a token */
function readHeaders(lines: readonly string[]): Record<string, string> {
  const headers = lines.map((line): [string, string] => {
    const [, name, value] = /^([^:\s]+):\s*(.*)$/.exec(line) ?? []
    if (name === undefined || !value)
      throw new UsageError("Cannot use --header as it must be like 'Name: value'")
    return [name, value]
  })
  if (new Set(headers.map(([name]) => name.toLowerCase())).size < headers.length) {
    throw new UsageError('Cannot use --header as one name is given twice')
  }
  return Object.fromEntries(headers)
}

/** Changes an endpoint's signing secret. */
export const rotate: Command = defineCommand({
  name: 'rotate',
  summary: 'makes a new signing secret for an endpoint',
  about: `Prints the new secret, this once. The one before signs too for the overlap, so that the subscriber can change over
in its own time; 0 ends it at once.`,
  argument: 'ID',
  flags: {
    organization,
    overlap: overlapFlag('both secrets sign'),
    ...SEALING_FLAGS,
    actor,
  },
  examples: [
    {
      purpose: 'with a day to change over',
      line: `business-api endpoints rotate ${EXAMPLE_ID} --organization org_42`,
    },
    {
      purpose: 'at once, as the secret got into the wrong hands',
      line: `business-api endpoints rotate ${EXAMPLE_ID} --organization org_42 --overlap 0`,
    },
  ],
  async run({ organization: owner, overlap, actor: who, ...rest }, session) {
    const { id, secret, previousSecretExpiresAt } = await withSettings(
      session,
      ({ endpoints }) => endpoints.rotateSecret(owner, session.argument, { overlapMs: overlap, actor: who }),
      readSealing(session, rest),
    )
    const overlapEnd = previousSecretExpiresAt
      ? `The one before signs too until ${formatMoment(previousSecretExpiresAt)}.`
      : 'The one before signs no more.'
    session.note(`Rotated the signing secret of ${id}. ${overlapEnd} The new one is shown this once:`)
    await session.printOnce({ id, secret }, secret, `rotate the secret of ${id} again`)
  },
})
