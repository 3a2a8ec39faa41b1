import { BusinessApiError, INVALID_STATE } from '../../base/errors.ts'
import { BACKFILL_TYPES, type BackfillType } from '../../resources/backfill.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context, Screen, ScreenPage } from '../context.ts'
import { textOf, textsOf } from '../form-values.ts'
import { type Content, html } from '../html.ts'
import { checkbox, fieldset, form, problemSummary } from '../views/form.ts'
import { buttonLink } from '../views/link.ts'
import { notice } from '../views/notice.ts'
import { nameOf } from './endpoint-words.ts'

/** Records of a part: some seconds of work. */
const PART_MAX = 2500

/** `/endpoints/:id/backfill`: sends an event for each existing record, in parts short enough for one request. */
export const backfill = {
  async ask(context: Context): Promise<ScreenPage> {
    const endpoint = await find(context)
    return showForm(context, endpoint, offeredFor(endpoint), null)
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, form: sent, t, link } = context
    const endpoint = await find(context)
    const types = offeredFor(endpoint).filter((type) => textsOf(sent, 'type').includes(type))
    if (types.length === 0) {
      const problem = { type: t`Select at least one event` }
      return {
        ...showForm(context, endpoint, [], problemSummary(t`Couldn't backfill`, problem)),
        status: 422,
      }
    }
    const after = textOf(sent, 'after') || null
    const options = { types, after, limit: PART_MAX, actor: access.actor }
    try {
      const { examined, events, next } = await settings.endpoints.backfill(
        access.organizationId,
        endpoint.id,
        options,
      )
      const total = (Number(textOf(sent, 'total')) || 0) + events
      const count = t.count(total, 'One event queued', '{0} events queued')
      const back = link(`/endpoints/${endpoint.id}`)
      const content = html`${notice('good', count, html`<p>${t.count(examined, 'One record checked just now.', '{0} records checked just now.')}${next !== null && html` ${t`More records remain.`}`}</p>`)}
${
  next === null
    ? html`<p>${buttonLink(back, t`View endpoint`, 'main')}</p>`
    : html`<div data-continue>${form(
        context,
        link(`/endpoints/${endpoint.id}/backfill`),
        { after: next, total: String(total) },
        types.map((type) => html`<input type="hidden" name="type" value="${type}">`),
        html`<button class="ba-button ba-button-main">${t`Continue`}</button>${buttonLink(back, t`Stop`)}`,
      )}</div>`
}`
      return {
        title: next === null ? t`Backfill complete` : t`Backfill in progress`,
        content,
        up: upOf(context, endpoint),
      }
    } catch (error) {
      if (!(error instanceof BusinessApiError && error.code === INVALID_STATE)) throw error
      const message = notice('wait', t`Couldn't backfill: the endpoint is not enabled.`)
      return { ...showForm(context, endpoint, types, message), status: 409 }
    }
  },
}

async function find({ settings, access, params }: Context): Promise<WebhookEndpoint> {
  return settings.endpoints.get(access.organizationId, params.id ?? '')
}

function offeredFor({ types }: WebhookEndpoint): readonly BackfillType[] {
  return BACKFILL_TYPES.filter((type) => types?.includes(type) ?? true)
}

function upOf({ link }: Context, endpoint: WebhookEndpoint): { href: string; text: string } {
  return { href: link(`/endpoints/${endpoint.id}`), text: nameOf(endpoint) }
}

function showForm(
  context: Context,
  endpoint: WebhookEndpoint,
  chosen: readonly BackfillType[],
  message: Content,
): ScreenPage {
  const { t, link } = context
  const offered = offeredFor(endpoint)
  const back = link(`/endpoints/${endpoint.id}`)
  const content = html`${message}
<p class="ba-lead">${t`Send a creation event for each record that existed before this endpoint. Records it already received are left out, and new events go first.`}</p>
${
  offered.length === 0
    ? html`<p>${t`This endpoint doesn't receive creation events.`} ${buttonLink(back, t`Back`)}</p>`
    : form(
        context,
        link(`/endpoints/${endpoint.id}/backfill`),
        {},
        fieldset(
          { name: 'type', label: t`Events` },
          offered.map((type, index) =>
            checkbox(
              { name: 'type', id: index === 0 ? 'type' : null, value: type, checked: chosen.includes(type) },
              type,
            ),
          ),
        ),
        html`<button class="ba-button ba-button-main">${t`Start backfill`}</button>${buttonLink(back, t`Cancel`)}`,
      )
}`
  return { title: t`Backfill existing records`, content, up: upOf(context, endpoint) }
}
