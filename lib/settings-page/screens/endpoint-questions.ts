import type { Context, Screen, ScreenPage } from '../context.ts'
import { textOf } from '../form-values.ts'
import { html } from '../html.ts'
import { confirmationPage } from '../views/confirmation.ts'
import { alreadyMade, buttonLink } from '../views/elements.ts'
import { form, radios } from '../views/form.ts'
import { lastRotation } from './audit.ts'
import { showSecret } from './endpoint-form.ts'
import { endpointOf, nameOf } from './endpoint-words.ts'
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
        t`New events are skipped until you enable the endpoint; you can resend them then. To keep them pending instead, pause the endpoint.`,
      ],
      action: link(`/endpoints/${id}/disable`),
      back: link(`/endpoints/${id}`),
      verb: t`Disable endpoint`,
    })
  },

  async act({ settings, access, params, link }: Context): Promise<Screen> {
    const { id } = await settings.endpoints.disable(access.organizationId, params.id ?? '', {
      actor: access.actor,
    })
    return { location: link(`/endpoints/${id}`, { done: 'disable' }) }
  },

  isDone: async (context: Context): Promise<boolean> => (await endpointOf(context)).state === 'disabled',
}

/** `/endpoints/:id/delete`. */
export const removal = {
  async ask(context: Context): Promise<ScreenPage> {
    const { t, link } = context
    const { id, name, waiting } = await findWithWaiting(context)
    return confirmationPage(context, {
      title: t`Delete ${name}?`,
      consequences: [
        waiting,
        t`The endpoint and its signing secret are permanently deleted. Its deliveries stay in the log but can't be resent.`,
      ],
      action: link(`/endpoints/${id}/delete`),
      back: link(`/endpoints/${id}`),
      verb: t`Delete endpoint`,
    })
  },

  async act({ settings, access, params, link }: Context): Promise<Screen> {
    await settings.endpoints.remove(access.organizationId, params.id ?? '', { actor: access.actor })
    return { location: link('/endpoints', { done: 'deleted' }) }
  },
}

/** `/endpoints/:id/rotate`. */
export const secretRotation = {
  async ask(context: Context): Promise<ScreenPage> {
    const { t, link, newId } = context
    const endpoint = await endpointOf(context)
    const { id } = endpoint
    const content = html`<p class="ba-lead">${t`Rotating creates a new secret. Until the current secret expires, each webhook carries two signatures; accept it if either matches.`}</p>
${form(
  context,
  link(`/endpoints/${id}/rotate`),
  { id: newId('chg') },
  radios({ name: 'overlap', label: t`Expire the current secret` }, overlapChoices(t), '24h'),
  html`<button class="ba-button ba-button-main">${t`Rotate secret`}</button>${buttonLink(link(`/endpoints/${id}`), t`Cancel`)}`,
)}`
    return {
      title: t`Rotate signing secret`,
      content,
      up: { href: link(`/endpoints/${id}`), text: nameOf(endpoint) },
    }
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, params, form, t, link } = context
    const overlapMs = readOverlap(form)
    const changeId = textOf(form, 'id')
    const endpoint = await endpointOf(context)
    const { id } = endpoint
    if (overlapMs === 0 && textOf(form, 'sure') !== 'yes') {
      return confirmationPage(context, {
        title: t`Expire the current secret immediately?`,
        consequences: [
          t`Without an overlap, ${nameOf(endpoint)} rejects every event until it has the new secret. Rejected events are retried for a few minutes, then fail.`,
        ],
        action: link(`/endpoints/${id}/rotate`),
        back: link(`/endpoints/${id}`),
        verb: t`Rotate now`,
        hidden: { id: changeId, overlap: 'now', sure: 'yes' },
      })
    }
    try {
      const options = { ...(changeId === '' ? {} : { id: changeId }), overlapMs, actor: access.actor }
      const rotated = await settings.endpoints.rotateSecret(access.organizationId, params.id ?? '', options)
      return showSecret(context, rotated, t`Signing secret rotated`)
    } catch (error) {
      const made = alreadyMade(error, context, 'endpoint')
      if (made) return made
      throw error
    }
  },

  isDone: async (context: Context): Promise<boolean> =>
    (await lastRotation(context, context.params.id ?? ''))?.details.changeId === textOf(context.form, 'id'),
}

async function findWithWaiting(context: Context) {
  const { settings, access, t } = context
  const endpoint = await endpointOf(context)
  const filter = { endpointId: endpoint.id, states: ['pending'] } as const
  const waiting = await settings.deliveries.count(access.organizationId, filter)
  const text =
    waiting === 0
      ? t`No pending deliveries.`
      : t.count(waiting, '1 pending delivery will be skipped.', '{0} pending deliveries will be skipped.')
  return { id: endpoint.id, name: nameOf(endpoint), waiting: text }
}
