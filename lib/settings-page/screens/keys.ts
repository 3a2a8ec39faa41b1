import { type ApiKey, endOfKey } from '../../access/api-keys.ts'
import { BusinessApiError, INVALID_STATE, LIMIT_REACHED } from '../../base/errors.ts'
import { Refusal } from '../../http/refusal.ts'
import type { Context, Screen, ScreenPage } from '../context.ts'
import { textOf } from '../form-values.ts'
import { html } from '../html.ts'
import { confirmationPage } from '../views/confirmation.ts'
import {
  alreadyMade,
  buttonLink,
  comparison,
  copyableId,
  empty,
  facts,
  notice,
  questionLink,
  quietLink,
} from '../views/elements.ts'
import { form, input, type Problems, problemSummary, radios } from '../views/form.ts'
import { lines } from '../views/table.ts'
import { auditOf } from './audit.ts'
import { BEYOND_GRANT } from './failure.ts'
import { keyNameProblem, keyState, NAME_MAX, scopeText } from './key-words.ts'
import { showSecret } from './new-key.ts'
import { overlapChoices, readOverlap } from './overlap.ts'
import { readUnlogged } from './unlogged.ts'

/** `/keys`: the active keys, with a link to revoked and expired keys. */
export async function list(context: Context): Promise<ScreenPage> {
  const { settings, access, t, format, query, link, now } = context
  const [all, resets] = await Promise.all([
    settings.apiKeys.list(access.organizationId),
    readUnlogged(settings.rateLimits.resets(access.organizationId), {}),
  ])
  const inForce = all.filter((key) => endOfKey(key, now) === null)
  const isAll = query.get('show') === 'all'
  const keys = isAll
    ? [...inForce, ...all.filter((key) => endOfKey(key, now) !== null)].slice(0, ROWS_MAX)
    : inForce
  const mayWrite = access.can('keys:write')
  const act = mayWrite && buttonLink(link('/keys/new'), t`Create API key`, 'main')
  const ended = all.length - inForce.length
  const never = t`Never`
  const content = html`<p class="ba-lead">${t`API keys authenticate requests to the API. You can view a key only once, when you create it.`}</p>
${
  keys.length === 0
    ? empty(t`No active API keys. Create one to authenticate your requests.`, act)
    : lines<ApiKey>(
        t`API keys`,
        [
          { head: t`Name`, cell: ({ id, name }) => html`<a href="${link(`/keys/${id}`)}">${name}</a>` },
          {
            head: t`Key`,
            width: 'medium',
            cell: ({ prefix, lastFour }) => html`<code>${prefix}…${lastFour}</code>`,
          },
          { head: t`Permissions`, width: 'small', cell: ({ scopes }) => scopeText(context, scopes) },
          {
            head: t`Last used`,
            isHeadShown: true,
            width: 'small',
            cell: ({ lastUsedAt }) => (lastUsedAt ? format.short(lastUsedAt, 'day') : never),
          },
          {
            head: t`Expires`,
            isHeadShown: true,
            width: 'small',
            cell: ({ expiresAt }) => (expiresAt ? format.short(expiresAt, 'day') : never),
          },
          {
            head: t`Rate limit`,
            isHeadShown: true,
            width: 'small',
            cell: (key) => (endOfKey(key, now) === null ? usageText(context, key, resets[key.id] ?? 0) : '–'),
          },
          { head: t`Status`, width: 'small', cell: (key) => keyState(t, key, now) },
        ],
        keys,
      )
}
${
  ended > 0 &&
  html`<p>${
    isAll
      ? quietLink(link('/keys'), t`Hide revoked and expired keys`)
      : quietLink(link('/keys', { show: 'all' }), t`Show revoked and expired keys`)
  }</p>`
}`
  return { title: t`API keys`, content, acts: keys.length > 0 && act }
}

/** Formats the used share of a key's rate limit; a dash if unknown. @param resetMs ms until all of it is available */
function usageText({ t, format, keyRateLimit }: Context, { rateLimit }: ApiKey, resetMs: number): string {
  const limit = rateLimit ?? keyRateLimit
  if (limit === null) return '–'
  const used = (resetMs * limit.perSecond) / 1000 / limit.burst
  return t`${format.percent(Math.min(1, used))} used now`
}

/** Maximum number of keys in the list, because revoked keys are kept forever. */
const ROWS_MAX = 200

// --- One key ---

/** `/keys/:id`. */
export async function show(context: Context): Promise<ScreenPage> {
  const { t, access, link, now, query } = context
  const key = await find(context)
  const mayAct = access.can('keys:write') && endOfKey(key, now) === null
  const mayGrant = access.mayGrant(key.scopes)
  const acts = access.can('keys:write') && [
    mayGrant && buttonLink(link(`/keys/${key.id}/edit`), t`Rename`),
    mayAct && mayGrant && key.successorId === null && buttonLink(link(`/keys/${key.id}/rotate`), t`Rotate`),
    mayAct && questionLink(link(`/keys/${key.id}/revoke`), t`Revoke`, 'danger'),
  ]
  const done = query.get('done')
  const content = html`${done === 'revoked' && notice('good', t`API key revoked`)}
${done === 'renamed' && notice('good', t`API key renamed`)}
${describe(context, key)}
${await auditOf(context, key.id)}`
  return { title: key.name, content, acts, up: { href: link('/keys'), text: t`API keys` } }
}

/** `/keys/:id/revoke`. */
export const revocation = {
  async ask(context: Context): Promise<Screen> {
    const { t, link, format } = context
    const key = await find(context)
    const { id, name, lastUsedAt } = key
    if (key.revokedAt !== null) return ended(context, key)
    return confirmationPage(context, {
      title: t`Revoke ${name}?`,
      consequences: [
        lastUsedAt ? html`${t`Last used`} ${format.time(lastUsedAt)}.` : t`Never used.`,
        t`Requests with this key are rejected immediately. This can't be undone.`,
      ],
      action: link(`/keys/${id}/revoke`),
      back: link(`/keys/${id}`),
      verb: t`Revoke API key`,
    })
  },

  async act({ settings, access, params, link }: Context): Promise<Screen> {
    const { id } = await settings.apiKeys.revoke(access.organizationId, params.id ?? '', {
      actor: access.actor,
    })
    return { location: link(`/keys/${id}`, { done: 'revoked' }) }
  },

  isDone: async (context: Context): Promise<boolean> => (await find(context)).revokedAt !== null,
}

/** `/keys/:id/rotate`. */
export const rotation = {
  async ask(context: Context): Promise<Screen> {
    const { t, link, newId, now } = context
    const key = await findGrantable(context)
    if (endOfKey(key, now) !== null || key.successorId !== null) return ended(context, key)
    const content = html`<p class="ba-lead">${t`A new key with the same name and permissions replaces this one. Both keys stay valid during the overlap, so you can roll out without downtime.`}</p>
${form(
  context,
  link(`/keys/${key.id}/rotate`),
  { id: newId('key') },
  radios({ name: 'overlap', label: t`Expire the current key` }, overlapChoices(t), '24h'),
  html`<button class="ba-button ba-button-main">${t`Rotate API key`}</button>${buttonLink(link(`/keys/${key.id}`), t`Cancel`)}`,
)}`
    return { title: t`Rotate ${key.name}`, content, up: { href: link(`/keys/${key.id}`), text: key.name } }
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, params, form, t, link } = context
    const overlapMs = readOverlap(form)
    const id = textOf(form, 'id')
    const key = await findGrantable(context)
    if (overlapMs === 0 && textOf(form, 'sure') !== 'yes') {
      return confirmationPage(context, {
        title: t`Expire the current key immediately?`,
        consequences: [t`Requests with the current key of ${key.name} are rejected immediately.`],
        action: link(`/keys/${key.id}/rotate`),
        back: link(`/keys/${key.id}`),
        verb: t`Rotate now`,
        hidden: { id, overlap: 'now', sure: 'yes' },
      })
    }
    try {
      const rotated = await settings.apiKeys.rotate(access.organizationId, params.id ?? '', {
        ...(id === '' ? {} : { id }),
        overlapMs,
        actor: access.actor,
      })
      const { expiresAt } = await find(context)
      return showSecret(context, rotated, t`API key rotated`, expiresAt)
    } catch (error) {
      const made = alreadyMade(error, context, 'key')
      if (made) return made
      const isState =
        error instanceof BusinessApiError && [INVALID_STATE, LIMIT_REACHED].includes(error.code as never)
      if (!isState) throw error
      return ended(context, await find(context))
    }
  },

  isDone: async (context: Context): Promise<boolean> =>
    (await find(context)).successorId === textOf(context.form, 'id'),
}

async function find({ settings, access, params }: Context): Promise<ApiKey> {
  return settings.apiKeys.get(access.organizationId, params.id ?? '')
}

/** Reads a key to change. @throws `Refusal` 403 if the key has scopes that the person may not grant */
async function findGrantable(context: Context): Promise<ApiKey> {
  const key = await find(context)
  if (!context.access.mayGrant(key.scopes)) throw new Refusal(403, BEYOND_GRANT)
  return key
}

/** Shows the current state of a key that can't be rotated or revoked, and its latest changes. Leads to the key if nothing was submitted. */
async function ended(context: Context, key: ApiKey): Promise<Screen> {
  const { t, link, now, form } = context
  if (form.size === 0) return { location: link(`/keys/${key.id}`) }
  const title =
    endOfKey(key, now) === null ? t`Couldn't rotate ${key.name}` : t`${key.name} is no longer active`
  const content = html`${notice('wait', t`Nothing was changed.`)}
${describe(context, key)}
${await auditOf(context, key.id)}`
  return { title, content, status: 409, up: { href: link(`/keys/${key.id}`), text: key.name } }
}

function describe(context: Context, key: ApiKey) {
  const { t, format, now, link, keyRateLimit } = context
  const {
    id,
    prefix,
    lastFour,
    scopes,
    createdAt,
    lastUsedAt,
    expiresAt,
    revokedAt,
    successorId,
    rateLimit: ownLimit,
  } = key
  const rateLimit = ownLimit ?? keyRateLimit
  return facts([
    [t`Status`, keyState(t, key, now)],
    [t`Key`, html`<code>${prefix}…${lastFour}</code>`],
    [t`Key ID`, copyableId(t, t`key ID`, id)],
    [t`Permissions`, scopeText(context, scopes)],
    [t`Created`, format.time(createdAt)],
    [t`Last used`, lastUsedAt ? format.time(lastUsedAt) : t`Never`],
    [
      endOfKey(key, now) === 'expired' ? t`Expired` : t`Expires`,
      expiresAt ? format.time(expiresAt) : t`Never`,
    ],
    revokedAt === null ? null : [t`Revoked`, format.time(revokedAt)],
    successorId === null
      ? null
      : [t`Replaced by`, html`<a href="${link(`/keys/${successorId}`)}">${t`View new key`}</a>`],
    rateLimit === null
      ? null
      : [t`Rate limit`, t`${rateLimit.perSecond} requests per second, bursts of ${rateLimit.burst}`],
  ])
}

// --- Its name ---

/** `/keys/:id/edit`: renames a key. Its scopes can't be changed. */
export const naming = {
  async ask(context: Context): Promise<ScreenPage> {
    const key = await findGrantable(context)
    return showForm(context, key, context.isStale ? textOf(context.form, 'name') : key.name, {})
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, form: sent, link, t } = context
    const key = await findGrantable(context)
    const name = textOf(sent, 'name')
    const problem = keyNameProblem(t, name)
    if (problem !== null) return showForm(context, key, name, { name: problem })
    const replaces = context.seen.name
    await settings.apiKeys.update(access.organizationId, key.id, { name, replaces, actor: access.actor })
    return { location: link(`/keys/${key.id}`, { done: 'renamed' }) }
  },

  isDone: async (context: Context): Promise<boolean> =>
    (await find(context)).name === textOf(context.form, 'name'),
}

function showForm(context: Context, key: ApiKey, name: string, problems: Problems): ScreenPage {
  const { t, link } = context
  const back = link(`/keys/${key.id}`)
  const isRefused = Object.keys(problems).length > 0
  const content = html`${problemSummary(t`Couldn't rename API key`, problems)}${context.isStale && comparison(t, [[t`Name`, key.name, name]])}
${form(
  context,
  link(`/keys/${key.id}/edit`),
  {},
  input(
    {
      name: 'name',
      label: t`Name`,
      hint: t`Permissions can't be changed. Create another key for different permissions.`,
      problems,
    },
    { value: name, maxlength: NAME_MAX, autocomplete: 'off', required: true },
  ),
  html`<button class="ba-button ba-button-main">${t`Save name`}</button>${buttonLink(back, t`Cancel`)}`,
)}`
  return {
    title: t`Rename ${key.name}`,
    content,
    up: { href: back, text: key.name },
    ...(isRefused && { status: 422 }),
  }
}
