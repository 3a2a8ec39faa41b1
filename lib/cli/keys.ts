import type { ApiKey } from '../api-keys.ts'
import { SCOPES, type Scope } from '../scopes.ts'
import { type Command, defineCommand, type Group } from './command.ts'
import { actor, EXAMPLE_ULID, organization, overlapFlag } from './common-flags.ts'
import { withSettings } from './database.ts'
import { formatMoment, parseFuture } from './durations.ts'
import { list, parsed, required, text } from './flags.ts'
import { type Column, formatTable } from './table.ts'

const keyPrefix = text('PREFIX', 'what the key begins with, bapi in bapi_live_…; default: bapi')

const create: Command = defineCommand({
  name: 'create',
  summary: 'makes an API key',
  about: `Prints the key, this once: what is stored is its digest, and nothing can bring it back.
Scopes: ${SCOPES.join(', ')}.`,
  flags: {
    organization,
    scopes: required(list('a,b', 'what the key may do, at least one scope')),
    name: text('NAME', "what people call it; default: 'Command line'"),
    expires: parsed(
      'WHEN',
      'when it ends: 90d from now, or 2027-01-31T00:00:00Z; default: never',
      parseFuture,
    ),
    keyPrefix,
    actor,
  },
  examples: [
    {
      purpose: 'a key for the form of a website, good for 90 days',
      line: 'business-api keys create --organization org_42 --scopes clients:write,leads:write --name Website --expires 90d',
    },
    {
      purpose: 'straight into a variable: stdout holds nothing but the key',
      line: 'KEY=$(business-api keys create --organization org_42 --scopes clients:read)',
    },
  ],
  async run(
    { organization: owner, scopes, name = 'Command line', expires, keyPrefix: prefix, ...acting },
    session,
  ) {
    const { id, key } = await withSettings(
      session,
      // A scope that is none is refused there, with the names of all.
      ({ apiKeys }) =>
        apiKeys.create(owner, { name, scopes: scopes as Scope[], expiresAt: expires, ...acting }),
      { keyPrefix: prefix },
    )
    session.note(`Created ${id}. The key is shown this once:`)
    await session.printOnce({ id, key }, key, `revoke ${id} and create another one`)
  },
})

const rotate: Command = defineCommand({
  name: 'rotate',
  summary: 'makes a key that takes the place of another one',
  about: `Prints the new key, this once. It has the name, the scopes and the rate limit of the one before, which stays in force
for the overlap; 0 revokes it at once.`,
  argument: 'ID',
  flags: {
    organization,
    overlap: overlapFlag('both keys are in force'),
    expires: parsed('WHEN', 'when the new one ends; default: when the one before would have', parseFuture),
    keyPrefix,
    actor,
  },
  examples: [
    {
      purpose: 'with a week to change over',
      line: `business-api keys rotate key_${EXAMPLE_ULID} --organization org_42 --overlap 7d`,
    },
  ],
  async run({ organization: owner, overlap, expires, keyPrefix: prefix, ...acting }, session) {
    const options = { overlapMs: overlap, expiresAt: expires, ...acting }
    const { id, key, previous } = await withSettings(
      session,
      ({ apiKeys }) => apiKeys.rotate(owner, session.argument, options),
      { keyPrefix: prefix },
    )
    const end = previous.revokedAt === null ? `ends ${formatMoment(previous.expiresAt ?? '')}` : 'is revoked'
    session.note(`Created ${id}; ${previous.id} ${end}. The new key is shown this once:`)
    await session.printOnce({ id, key }, key, `rotate ${id}, which has taken the place of ${previous.id}`)
  },
})

const listKeys: Command = defineCommand({
  name: 'list',
  summary: 'shows the API keys of an organization, revoked and expired ones too',
  flags: { organization },
  examples: [
    { purpose: 'all keys, newest first', line: 'business-api keys list --organization org_42' },
    {
      purpose: 'the ids of those that nobody has used yet',
      line: "business-api keys list --organization org_42 --json | jq -r '.data[] | select(.lastUsedAt == null).id'",
    },
  ],
  async run({ organization: owner }, session) {
    const data = await withSettings(session, ({ apiKeys }) => apiKeys.list(owner))
    await session.print({ data }, () => formatTable(COLUMNS, data, session.width))
  },
})

const COLUMNS: readonly Column<ApiKey>[] = [
  { title: 'ID', value: ({ id }) => id },
  { title: 'NAME', value: ({ name }) => name, isFlexible: true },
  { title: 'KEY', value: ({ prefix, lastFour }) => `${prefix}…${lastFour}` },
  { title: 'SCOPES', value: ({ scopes }) => scopes.join(','), isFlexible: true, isOptional: true },
  { title: 'STATE', value: stateOf },
  { title: 'CREATED', value: ({ createdAt }) => formatMoment(createdAt), isOptional: true },
  { title: 'LAST USED', value: ({ lastUsedAt }) => formatMoment(lastUsedAt ?? ''), isOptional: true },
]

function stateOf({ revokedAt, expiresAt }: ApiKey): string {
  if (revokedAt !== null) return 'revoked'
  if (expiresAt === null) return 'active'
  return Date.parse(expiresAt) <= Date.now() ? 'expired' : `until ${expiresAt.slice(0, 10)}`
}

const revoke: Command = defineCommand({
  name: 'revoke',
  summary: 'revokes an API key, for the very next request on any process',
  argument: 'ID',
  flags: { organization, actor },
  examples: [
    {
      purpose: 'a key that got into the wrong hands; its id is in keys list',
      line: `business-api keys revoke key_${EXAMPLE_ULID} --organization org_42`,
    },
  ],
  async run({ organization: owner, ...acting }, session) {
    const key = await withSettings(session, ({ apiKeys }) => apiKeys.revoke(owner, session.argument, acting))
    await session.print(key, () => `Revoked ${key.id} (${key.prefix}…${key.lastFour})\n`)
  },
})

/** API keys of organizations. */
export const keys: Group = {
  name: 'keys',
  summary: 'the API keys of an organization',
  commands: [create, listKeys, rotate, revoke],
}
