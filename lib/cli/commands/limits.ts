import { type Command, defineCommand, type Group } from '../command.ts'
import { actor, describeRate, organization, RATE_FLAGS, readRate } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { required } from '../flags.ts'

const { perSecond, burst } = RATE_FLAGS

const set: Command = defineCommand({
  name: 'set',
  summary: "sets an organization's rate limit",
  about:
    'The limit applies to all API keys of the organization together. To limit a single key, set its limit when you create it: see business-api-kit keys create --help.',
  flags: { organization, perSecond: required(perSecond), burst: required(burst), actor },
  examples: {
    'for a large customer': 'business-api-kit limits set --organization org_42 --per-second 100 --burst 1000',
  },
  async run({ organization: owner, perSecond: rate, burst: atOnce, ...acting }, session) {
    const rateLimit = readRate(rate, atOnce) ?? null
    await withSettings(session, ({ rateLimits }) => rateLimits.set(owner, rateLimit, acting))
    const described = rateLimit === null ? '' : describeRate(rateLimit)
    await session.print({ organizationId: owner, rateLimit }, () => `The limit of ${owner} is ${described}\n`)
  },
})

const reset: Command = defineCommand({
  name: 'reset',
  summary: "resets an organization's rate limit to the API's default",
  flags: { organization, actor },
  examples: {
    'the default again': 'business-api-kit limits reset --organization org_42',
  },
  async run({ organization: owner, ...acting }, session) {
    await withSettings(session, ({ rateLimits }) => rateLimits.set(owner, null, acting))
    await session.print({ organizationId: owner, rateLimit: null }, () => {
      return `The limit of ${owner} is the default of the API\n`
    })
  },
})

/** The rate limit commands. */
export const limits: Group = {
  name: 'limits',
  summary: 'the rate limit of an organization',
  commands: [set, reset],
}
