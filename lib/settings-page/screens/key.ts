import { type ApiKey, endOfKey } from '../../access/api-keys.ts'
import { BusinessApiError, INVALID_STATE, LIMIT_REACHED } from '../../base/errors.ts'
import type { Context, Page, Screen } from '../context.ts'
import { textOf } from '../form-values.ts'
import { html } from '../html.ts'
import { alreadyMade } from '../views/already-made.ts'
import { confirmationPage } from '../views/confirmation.ts'
import { facts } from '../views/facts.ts'
import { form, radios } from '../views/form.ts'
import { buttonLink, questionLink } from '../views/link.ts'
import { notice } from '../views/notice.ts'
import { auditOf } from './audit-entries.ts'
import { keyState, scopeText } from './key-words.ts'
import { showSecret } from './new-key.ts'
import { overlapChoices, readOverlap } from './overlap.ts'

/** `/keys/:id`. */
export async function show(context: Context): Promise<Page> {
  const { t, access, link, now, query } = context
  const key = await find(context)
  const mayAct = access.can('keys:write') && endOfKey(key, now) === null
  const acts = access.can('keys:write') && [
    buttonLink(link(`/keys/${key.id}/edit`), t`Rename`),
    mayAct && key.successorId === null && buttonLink(link(`/keys/${key.id}/rotate`), t`Rotate`),
    mayAct && questionLink(link(`/keys/${key.id}/revoke`), t`Revoke`, 'danger'),
  ]
  const done = query.get('done')
  const content = html`${done === 'revoked' && notice('good', t`${key.name} was revoked. Its next request is refused.`)}
${done === 'renamed' && notice('good', t`The name was changed.`)}
${describe(context, key)}
${await auditOf(context, key.id)}`
  return { title: key.name, content, acts, up: { href: link('/keys'), text: t`API keys` } }
}

/** `/keys/:id/revoke`. */
export const revocation = {
  async ask(context: Context): Promise<Page> {
    const { t, link, format } = context
    const key = await find(context)
    const { id, name, lastUsedAt } = key
    if (key.revokedAt !== null) return ended(context, key)
    return confirmationPage(t, {
      title: t`Revoke ${name}?`,
      consequences: [
        lastUsedAt ? html`${t`Last used:`} ${format.time(lastUsedAt)}.` : t`The key was never used.`,
        t`The next request with this key is refused. A revoked key cannot be brought back.`,
      ],
      action: link(`/keys/${id}/revoke`),
      back: link(`/keys/${id}`),
      verb: t`Revoke ${name}`,
    })
  },

  async act({ settings, access, params, link }: Context): Promise<Screen> {
    const { id } = await settings.apiKeys.revoke(access.organizationId, params.id ?? '', {
      actor: access.actor,
    })
    return { location: link(`/keys/${id}`, { done: 'revoked' }) }
  },
}

/** `/keys/:id/rotate`. */
export const rotation = {
  async ask(context: Context): Promise<Page> {
    const { t, link, newId, now } = context
    const key = await find(context)
    if (endOfKey(key, now) !== null || key.successorId !== null) return ended(context, key)
    const content = html`<p class="ba-lead">${t`A new key with the same name and rights takes the place of this one. For the overlap both are in force, so that no request is lost while you change over.`}</p>
${form(
  link(`/keys/${key.id}/rotate`),
  { id: newId('key') },
  radios({ name: 'overlap', label: t`How long does the old key stay in force?` }, overlapChoices(t), '24h'),
  html`<button class="ba-button ba-button-main">${t`Rotate ${key.name}`}</button>${buttonLink(link(`/keys/${key.id}`), t`Cancel`)}`,
)}`
    return { title: t`Rotate ${key.name}`, content, up: { href: link(`/keys/${key.id}`), text: key.name } }
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, params, form, t, link } = context
    const overlapMs = readOverlap(form)
    const id = textOf(form, 'id')
    const key = await find(context)
    if (overlapMs === 0 && textOf(form, 'sure') !== 'yes') {
      return confirmationPage(t, {
        title: t`Rotate ${key.name} now?`,
        consequences: [t`Without an overlap the next request with the old key is refused.`],
        action: link(`/keys/${key.id}/rotate`),
        back: link(`/keys/${key.id}`),
        verb: t`Rotate ${key.name} now`,
        hidden: { id, overlap: 'now', sure: 'yes' },
      })
    }
    try {
      const rotated = await settings.apiKeys.rotate(access.organizationId, params.id ?? '', {
        ...(id === '' ? {} : { id }),
        overlapMs,
        actor: access.actor,
      })
      return showSecret(context, rotated, t`${key.name} was rotated`)
    } catch (error) {
      const made = alreadyMade(error, context, 'key')
      if (made) return made
      const isState =
        error instanceof BusinessApiError && [INVALID_STATE, LIMIT_REACHED].includes(error.code as never)
      if (!isState) throw error
      return ended(context, await find(context))
    }
  },
}

async function find({ settings, access, params }: Context): Promise<ApiKey> {
  return settings.apiKeys.get(access.organizationId, params.id ?? '')
}

/** Shows the present state of a key that cannot be rotated or revoked, and the changes that led there. */
async function ended(context: Context, key: ApiKey): Promise<Page> {
  const { t, link, now } = context
  const title =
    endOfKey(key, now) === null ? t`${key.name} cannot be rotated now` : t`${key.name} is no longer in force`
  const content = html`${notice('wait', t`Nothing was changed.`)}
${describe(context, key)}
${await auditOf(context, key.id)}`
  return { title, content, status: 409, up: { href: link(`/keys/${key.id}`), text: key.name } }
}

function describe({ t, format, now, link }: Context, key: ApiKey) {
  const { prefix, lastFour, scopes, createdAt, lastUsedAt, expiresAt, revokedAt, successorId, rateLimit } =
    key
  return facts([
    [t`State`, keyState(t, key, now)],
    [t`Key`, html`<code>${prefix}…${lastFour}</code>`],
    [t`May`, scopeText(t, scopes)],
    [t`Created`, format.time(createdAt)],
    [t`Last used`, lastUsedAt ? format.time(lastUsedAt) : t`Never`],
    [t`Expires`, expiresAt ? format.time(expiresAt) : t`Never`],
    revokedAt === null ? null : [t`Revoked`, format.time(revokedAt)],
    successorId === null
      ? null
      : [t`Replaced by`, html`<a href="${link(`/keys/${successorId}`)}">${t`its successor`}</a>`],
    rateLimit === null ? null : [t`Requests`, t`${rateLimit.perSecond} a second, ${rateLimit.burst} at once`],
  ])
}
