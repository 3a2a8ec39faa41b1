import { type ApiKey, endOfKey } from '../../access/api-keys.ts'
import { type KeyScope, SCOPES, scopesOf } from '../../access/scopes.ts'
import { withoutUndefined } from '../../base/host-input.ts'
import { type Command, defineCommand, type Group } from '../command.ts'
import {
  actor,
  describeRate,
  EXAMPLE_ULID,
  maxFlag,
  organization,
  overlapFlag,
  RATE_FLAGS,
  readRate,
  TABLE_FLAGS,
} from '../common-flags.ts'
import { CONFIRMATION_FLAGS, confirm } from '../confirmation.ts'
import { ofRevokingKey, ofRotatingKey } from '../consequences.ts'
import { withSettings } from '../database.ts'
import { formatMoment, parseFuture } from '../durations.ts'
import { choices, type Flag, parsed, required, text } from '../flags.ts'
import { type Column, formatTable } from '../table.ts'

const maxApiKeys: Flag<number | undefined> = maxFlag(
  'BUSINESS_API_MAX_API_KEYS',
  'maximum number of active keys of the organization; default: 100',
)

const someScopes = choices(
  'a,b',
  'permissions of the key, at least one scope; all: every scope',
  scopesOf,
  ', or all',
)
const scopesFlag: Flag<readonly KeyScope[] | undefined> = {
  ...someScopes,
  read: (texts, source, service) =>
    texts[0]?.trim() === 'all' ? scopesOf(service) : someScopes.read(texts, source, service),
}

const create: Command = defineCommand({
  name: 'create',
  summary: 'creates an API key',
  about: `Prints the key, which is shown only once, because only a digest is stored.
Scopes: ${SCOPES.join(', ')}, and those of --service; all stands for every one.`,
  flags: {
    organization,
    scopes: required(scopesFlag),
    name: text('NAME', "a descriptive name; default: 'Command line'"),
    expires: parsed(
      'WHEN',
      'when the key expires: 90d from now, or 2027-01-31T00:00:00Z; default: never',
      parseFuture,
    ),
    ...RATE_FLAGS,
    maxApiKeys,
    actor,
  },
  examples: {
    'a key for the form of a website, good for 90 days':
      'business-api-kit keys create --organization org_42 --scopes clients:write,leads:write --name Website --expires 90d',
    'straight into a variable: stdout has only the key':
      'KEY=$(business-api-kit keys create --organization org_42 --scopes clients:read)',
  },
  async run(
    { organization: owner, scopes, name = 'Command line', expires, perSecond, burst, actor: who, ...options },
    session,
  ) {
    const rateLimit = readRate(perSecond, burst)
    const newKey = withoutUndefined({ name, scopes, expiresAt: expires, rateLimit, actor: who })
    const { id, key } = await withSettings(session, ({ apiKeys }) => apiKeys.create(owner, newKey), options)
    session.note(`Created ${id}. The key is shown only once:`)
    await session.printOnce({ id, key }, key, `revoke ${id} and create another one`)
  },
})

const importKey: Command = defineCommand({
  name: 'import',
  summary: 'imports a key of your previous API, so callers can keep it',
  about:
    "Takes the digest of the key, never the key. The form of such keys is the importedKeys of the host's --service.",
  flags: {
    organization,
    digest: required(text('HEX', 'SHA-256 of the whole key')),
    prefix: text('TEXT', 'the beginning of the key, to show; default: none'),
    lastFour: required(text('TEXT', 'the last four characters of the key')),
    scopes: required(scopesFlag),
    name: required(text('NAME', 'a descriptive name')),
    expires: parsed('WHEN', 'when the key expires; default: never', parseFuture),
    maxApiKeys,
    actor,
  },
  examples: {
    'a key with the digest that the earlier API has stored':
      'business-api-kit keys import --organization org_42 --digest $DIGEST --prefix acme_ --last-four 7f3a --scopes clients:read --name Website --service service.js',
  },
  async run({ organization: owner, maxApiKeys: most, prefix = '', expires, ...given }, session) {
    const key = withoutUndefined({ ...given, prefix, expiresAt: expires })
    const options = { maxApiKeys: most }
    const imported = await withSettings(session, ({ apiKeys }) => apiKeys.import(owner, key), options)
    await session.print(imported, () => `Imported ${imported.id} (${imported.prefix}…${imported.lastFour})\n`)
  },
})

const rotate: Command = defineCommand({
  name: 'rotate',
  summary: 'rotates an API key',
  about: `Prints the new key, which is shown only once. It has the previous key's name, scopes and rate limit. The previous key stays active during the overlap; with an overlap of 0, it is revoked immediately.`,
  argument: 'ID',
  flags: {
    organization,
    overlap: overlapFlag('both keys are active'),
    expires: parsed('WHEN', 'when the new key expires; default: when the previous key does', parseFuture),
    maxApiKeys,
    ...CONFIRMATION_FLAGS,
    actor,
  },
  examples: {
    'with a week to change over': `business-api-kit keys rotate key_${EXAMPLE_ULID} --organization org_42 --overlap 7d`,
  },
  async run({ organization: owner, overlap, expires, yes, dryRun, actor: who, ...prefix }, session) {
    const rotation = withoutUndefined({ overlapMs: overlap, expiresAt: expires, actor: who })
    const rotated = await withSettings(
      session,
      async (settings) => {
        // With an overlap, nothing stops working right away, so there's no need to ask.
        const asking = { yes: yes || overlap !== 0, dryRun }
        const find = () => ofRotatingKey(settings, owner, session.argument, overlap)
        if (!(await confirm(session, asking, find))) return null
        return settings.apiKeys.rotate(owner, session.argument, rotation)
      },
      prefix,
    )
    if (rotated === null) return
    const { id, key, previous } = rotated
    const end = previous.revokedAt === null ? `ends ${formatMoment(previous.expiresAt ?? '')}` : 'is revoked'
    session.note(`Created ${id}; ${previous.id} ${end}. The new key is shown only once:`)
    await session.printOnce({ id, key }, key, `rotate ${id}, which has replaced ${previous.id}`)
  },
})

const listKeys: Command = defineCommand({
  name: 'list',
  summary: "lists an organization's API keys, including revoked and expired keys",
  flags: { organization, ...TABLE_FLAGS },
  examples: {
    'all keys, newest first': 'business-api-kit keys list --organization org_42',
    'the ids of keys that were never used':
      "business-api-kit keys list --organization org_42 --json | jq -r '.data[] | select(.lastUsedAt == null).id'",
  },
  async run({ organization: owner, wide }, session) {
    const data = await withSettings(session, ({ apiKeys }) => apiKeys.list(owner))
    await session.print({ data }, () => formatTable(COLUMNS, data, session.width(wide)))
  },
})

const COLUMNS: readonly Column<ApiKey>[] = [
  { title: 'ID', value: ({ id }) => id },
  { title: 'NAME', value: ({ name }) => name },
  { title: 'KEY', value: ({ prefix, lastFour }) => `${prefix}…${lastFour}` },
  { title: 'STATE', value: stateOf },
  { title: 'CREATED', value: ({ createdAt }) => formatMoment(createdAt) },
  { title: 'LAST USED', value: ({ lastUsedAt }) => formatMoment(lastUsedAt ?? '') },
  { title: 'LIMIT', value: ({ rateLimit }) => (rateLimit === null ? '' : describeRate(rateLimit)) },
  { title: 'SCOPES', value: ({ scopes }) => scopes.join(', ') },
]

function stateOf(key: ApiKey): string {
  const end = endOfKey(key, Date.now())
  if (end !== null) return end
  return key.expiresAt === null ? 'active' : `until ${key.expiresAt.slice(0, 10)}`
}

const revoke: Command = defineCommand({
  name: 'revoke',
  summary: 'revokes an API key: its next request is rejected',
  argument: 'ID',
  flags: { organization, ...CONFIRMATION_FLAGS, actor },
  examples: {
    'a leaked key, with its id from keys list': `business-api-kit keys revoke key_${EXAMPLE_ULID} --organization org_42`,
  },
  async run({ organization: owner, actor: who, ...asking }, session) {
    const { argument: id } = session
    const key = await withSettings(session, async (settings) => {
      const find = () => ofRevokingKey(settings, owner, id)
      if (!(await confirm(session, asking, find))) return null
      return settings.apiKeys.revoke(owner, id, { actor: who })
    })
    if (key === null) return
    await session.print(key, () => `Revoked ${key.id} (${key.prefix}…${key.lastFour})\n`)
  },
})

const rename: Command = defineCommand({
  name: 'rename',
  summary: 'renames an API key',
  argument: 'ID',
  flags: { organization, name: required(text('NAME', 'a descriptive name')), actor },
  examples: {
    'a key with an id from keys list': `business-api-kit keys rename key_${EXAMPLE_ULID} --organization org_42 --name Website`,
  },
  async run({ organization: owner, name, actor: who }, session) {
    const { argument: id } = session
    const key = await withSettings(session, ({ apiKeys }) => apiKeys.update(owner, id, { name, actor: who }))
    await session.print(key, () => `Renamed ${key.id} (${key.prefix}…${key.lastFour})\n`)
  },
})

/** The API key commands. */
export const keys: Group = {
  name: 'keys',
  summary: 'the API keys of an organization',
  commands: [create, importKey, listKeys, rename, rotate, revoke],
}
