import { readOutlook } from '../../webhooks/outlook.ts'
import type { Context, Screen, ScreenPage } from '../context.ts'
import { textOf } from '../form-values.ts'
import { html } from '../html.ts'
import { alreadyMade } from '../views/already-made.ts'
import { confirmationPage } from '../views/confirmation.ts'
import { form, radios } from '../views/form.ts'
import { buttonLink } from '../views/link.ts'
import { showSecret } from './endpoint-form.ts'
import { nameOf } from './endpoint-words.ts'
import { overlapChoices, readOverlap } from './overlap.ts'

/** `/endpoints/:id/disable`. */
export const disabling = {
  async ask(context: Context): Promise<ScreenPage> {
    const { t, link } = context
    const { id, name, waiting } = await findWithWaiting(context)
    return confirmationPage(context, {
      title: t`Disable ${name}?`,
      consequences: [
        waiting,
        t`New events are recorded and skipped. After enabling the endpoint you can send skipped deliveries again. To let them wait instead, pause the endpoint.`,
      ],
      action: link(`/endpoints/${id}/disable`),
      back: link(`/endpoints/${id}`),
      verb: t`Disable ${name}`,
    })
  },

  async act({ settings, access, params, link }: Context): Promise<Screen> {
    const { id } = await settings.endpoints.disable(access.organizationId, params.id ?? '', {
      actor: access.actor,
    })
    return { location: link(`/endpoints/${id}`, { done: 'disable' }) }
  },

  isDone: async ({ settings, access, params }: Context): Promise<boolean> =>
    (await settings.endpoints.get(access.organizationId, params.id ?? '')).state === 'disabled',
}

/** `/endpoints/:id/remove`. */
export const removal = {
  async ask(context: Context): Promise<ScreenPage> {
    const { t, link } = context
    const { id, name, waiting } = await findWithWaiting(context)
    return confirmationPage(context, {
      title: t`Remove ${name}?`,
      consequences: [
        waiting,
        t`The endpoint and its signing secret are gone for good, and its deliveries can no longer be sent again. Its delivery log stays.`,
      ],
      action: link(`/endpoints/${id}/remove`),
      back: link(`/endpoints/${id}`),
      verb: t`Remove ${name}`,
    })
  },

  async act({ settings, access, params, link }: Context): Promise<Screen> {
    await settings.endpoints.remove(access.organizationId, params.id ?? '', { actor: access.actor })
    return { location: link('/endpoints', { done: 'removed' }) }
  },
}

/** `/endpoints/:id/rotate`. */
export const secretRotation = {
  async ask(context: Context): Promise<ScreenPage> {
    const { t, link, newId } = context
    const { id, name } = await find(context)
    const content = html`<p class="ba-lead">${t`A new secret signs from now on. For the overlap the old one signs too, so that no event is refused while you change over: your program accepts a webhook if either signature is right.`}</p>
${form(
  context,
  link(`/endpoints/${id}/rotate`),
  { id: newId('chg') },
  radios({ name: 'overlap', label: t`How long does the old secret sign too?` }, overlapChoices(t), '24h'),
  html`<button class="ba-button ba-button-main">${t`Rotate the secret`}</button>${buttonLink(link(`/endpoints/${id}`), t`Cancel`)}`,
)}`
    return {
      title: t`Rotate the signing secret`,
      content,
      up: { href: link(`/endpoints/${id}`), text: name },
    }
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, params, form, t, link } = context
    const overlapMs = readOverlap(form)
    const changeId = textOf(form, 'id')
    const { id, name } = await find(context)
    if (overlapMs === 0 && textOf(form, 'sure') !== 'yes') {
      return confirmationPage(context, {
        title: t`Rotate the signing secret now?`,
        consequences: [
          t`Without an overlap ${name} refuses every event until its program knows the new secret. Refused events are sent again for some minutes, then they fail.`,
        ],
        action: link(`/endpoints/${id}/rotate`),
        back: link(`/endpoints/${id}`),
        verb: t`Rotate it now`,
        hidden: { id: changeId, overlap: 'now', sure: 'yes' },
      })
    }
    try {
      const options = { ...(changeId === '' ? {} : { id: changeId }), overlapMs, actor: access.actor }
      const rotated = await settings.endpoints.rotateSecret(access.organizationId, params.id ?? '', options)
      return showSecret(context, rotated, t`The secret of ${name} was rotated`)
    } catch (error) {
      const made = alreadyMade(error, context, 'endpoint')
      if (made) return made
      throw error
    }
  },

  async isDone({ settings, access, params, form }: Context): Promise<boolean> {
    const filter = { subjectId: params.id ?? '', action: 'endpoint.secret_rotated', limit: 1 } as const
    const { data } = await settings.audit.list(access.organizationId, filter)
    return data[0]?.details.changeId === textOf(form, 'id')
  },
}

async function find({
  settings,
  access,
  params,
}: Context): Promise<{ readonly id: string; readonly name: string }> {
  const endpoint = await settings.endpoints.get(access.organizationId, params.id ?? '')
  return { id: endpoint.id, name: nameOf(endpoint) }
}

/** The endpoint, and the number of deliveries that wait for it. */
async function findWithWaiting(context: Context) {
  const { settings, access, t } = context
  const endpoint = await find(context)
  const { waiting } = await readOutlook(settings, access.organizationId, endpoint.id)
  const text =
    waiting === 0
      ? t`No delivery waits for it.`
      : t.count(
          waiting,
          'One delivery waits and will not be sent.',
          '{0} deliveries wait and will not be sent.',
        )
  return { ...endpoint, waiting: text }
}
