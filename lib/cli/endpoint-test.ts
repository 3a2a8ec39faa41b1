import type { EventType } from '../events.ts'
import type { TestResult } from '../settings/test-delivery.ts'
import { createWebhookSender } from '../webhooks/sender.ts'
import { type Command, defineCommand } from './command.ts'
import { actor, DESTINATION_FLAGS, EXAMPLE_ULID, headerPrefix, organization } from './common-flags.ts'
import { withSettings } from './database.ts'
import { formatDuration } from './durations.ts'
import { Failure } from './failure.ts'
import { text } from './flags.ts'
import { readSecretKeys } from './sealing.ts'
import { formatDetails } from './table.ts'

/** Sends an example of an event to an endpoint. */
export const test: Command = defineCommand({
  name: 'test',
  summary: 'sends an example of an event to an endpoint at once, and tells what became of it',
  about: `Signed as every delivery; its id begins with evt_test_. It is in no log, and is made also while the endpoint is paused or
disabled. The exit code is 1 when the answer is not 2xx.`,
  argument: 'ID',
  flags: {
    organization,
    type: text('TYPE', 'of which type; default: the first that the endpoint wants'),
    headerPrefix,
    ...DESTINATION_FLAGS,
    actor,
  },
  examples: [
    {
      purpose: 'does the subscriber verify what we send?',
      line: `business-api endpoints test we_${EXAMPLE_ULID} --organization org_42 --type invoice.paid`,
    },
  ],
  async run({ organization: owner, type, actor: who, ...options }, session) {
    const secretKeys = readSecretKeys(session)
    const sender = createWebhookSender(options)
    const result = await withSettings(
      session,
      // A type that is none is refused there, with the names of all.
      ({ endpoints }) =>
        endpoints.sendTest(owner, session.argument, { type: type as EventType | undefined, actor: who }),
      { ...options, secretKeys, sender },
    ).finally(() => sender.close())
    await session.print(result, () => describeResult(result))
    if (!result.delivered) throw new Failure(`The test was not delivered: ${answerOf(result)}`)
  },
})

function answerOf({ status, error }: TestResult): string {
  return status === null ? String(error) : `the answer is ${status}`
}

function describeResult(result: TestResult): string {
  const { delivered, eventId, type, durationMs, dnsMs, connectMs, tlsMs, firstByteMs, bodyExcerpt } = result
  return formatDetails([
    ['Delivered', delivered ? 'yes' : 'no'],
    ['Event', `${eventId} (${type})`],
    ['Answer', answerOf(result)],
    ['Took', formatDuration(durationMs)],
    ['DNS', formatPart(dnsMs)],
    ['Connect', formatPart(connectMs)],
    ['TLS', formatPart(tlsMs)],
    ['First byte', formatPart(firstByteMs)],
    ['Body', bodyExcerpt === '' ? null : bodyExcerpt],
  ])
}

function formatPart(ms: number | null): string | null {
  return ms === null ? null : formatDuration(ms)
}
