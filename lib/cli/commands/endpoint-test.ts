import { DESTINATION_REFUSED } from '../../sender/send-error.ts'
import { createWebhookSender } from '../../sender/sender.ts'
import type { TestResult } from '../../settings/test-delivery.ts'
import { type Command, defineCommand } from '../command.ts'
import { actor, DESTINATION_FLAGS, EXAMPLE_ULID, eventTypeFlag, organization } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { formatDuration } from '../durations.ts'
import { Failure } from '../failure.ts'
import { readSecretKeys } from '../sealing.ts'
import { formatDetails } from '../table.ts'
import { describeExcerpt } from '../text.ts'

/** Sends an example event to an endpoint. */
export const test: Command = defineCommand({
  name: 'test',
  summary: 'sends an example event to an endpoint now, and shows the response',
  about: `The example is signed like every delivery; its id begins with evt_test_. It doesn't appear in the log and is sent even if the endpoint is paused or disabled. The exit code is 1 if the response is not 2xx.`,
  argument: 'ID',
  flags: {
    organization,
    type: eventTypeFlag('the type of the example; default: the first type that the endpoint wants'),
    ...DESTINATION_FLAGS,
    actor,
  },
  examples: {
    'does the subscriber accept our signature?': `business-api-kit endpoints test we_${EXAMPLE_ULID} --organization org_42 --type invoice.paid`,
  },
  async run({ organization: owner, type, actor: who, ...destinations }, session) {
    const secretKeys = readSecretKeys(session)
    const sender = createWebhookSender(destinations)
    const sending = withSettings(
      session,
      ({ endpoints }) => endpoints.sendTest(owner, session.argument, { type, actor: who }),
      { ...destinations, secretKeys, sender },
    ).finally(() => sender.close())
    const result = await session.progress('Sending an example').during(sending)
    await session.print(result, () => describeResult(result, session.width()))
    if (!result.delivered)
      throw new Failure(`The test was not delivered: ${answerOf(result)}${adviceFor(result)}`)
  },
})

function adviceFor({ error }: TestResult): string {
  if (error !== DESTINATION_REFUSED) return ''
  return '; --allow-private-networks or --allow-http may allow it, for development'
}

function answerOf({ status, error }: TestResult): string {
  return status === null ? String(error) : `the response is ${status}`
}

function describeResult(result: TestResult, width: number): string {
  const { delivered, eventId, type, durationMs, dnsMs, connectMs, tlsMs, firstByteMs, bodyExcerpt } = result
  const details = [
    ['Delivered', delivered ? 'yes' : 'no'],
    ['Event', `${eventId} (${type})`],
    ['Answer', answerOf(result)],
    ['Redirects to', result.location],
    ['Took', formatDuration(durationMs)],
    ['DNS', formatPart(dnsMs)],
    ['Connect', formatPart(connectMs)],
    ['TLS', formatPart(tlsMs)],
    ['First byte', formatPart(firstByteMs)],
    ['Body', bodyExcerpt === '' ? null : describeExcerpt(bodyExcerpt)],
  ] as const
  return formatDetails(details, width)
}

function formatPart(ms: number | null): string | null {
  return ms === null ? null : formatDuration(ms)
}
