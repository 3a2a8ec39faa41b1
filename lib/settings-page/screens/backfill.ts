import { BusinessApiError, INVALID_STATE } from '../../base/errors.ts'
import { BACKFILL_TYPES, type BackfillType } from '../../resources/backfill.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context, Screen, ScreenPage } from '../context.ts'
import { numberOf, textOf, textsOf } from '../form-values.ts'
import { type Content, html } from '../html.ts'
import { buttonLink, notice } from '../views/elements.ts'
import { checkbox, fieldset, form, problemSummary } from '../views/form.ts'
import { continuation } from '../views/progress.ts'
import { endpointOf, nameOf } from './endpoint-words.ts'

/** Maximum number of records per request, which takes some seconds. */
const PART_MAX = 2500
/** Maximum number of records per request of the script, which shows the progress. */
const STEP_MAX = 500

/** `/endpoints/:id/backfill`: sends an event for each existing record, in parts that fit into a request. */
export const backfill = {
  async ask(context: Context): Promise<ScreenPage> {
    const endpoint = await endpointOf(context)
    return showForm(context, endpoint, backfillTypes(endpoint), null)
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, form: sent, t, link } = context
    const endpoint = await endpointOf(context)
    const types = backfillTypes(endpoint).filter((type) => textsOf(sent, 'type').includes(type))
    if (types.length === 0) {
      const problem = { type: t`Select at least one event` }
      return {
        ...showForm(context, endpoint, [], problemSummary(t`Couldn't backfill`, problem)),
        status: 422,
      }
    }
    const { organizationId, actor } = access
    try {
      const total = numberOf(textOf(sent, 'total')) || (await countRecords(context, types))
      const { examined, events, next } = await settings.endpoints.backfill(organizationId, endpoint.id, {
        types,
        after: textOf(sent, 'after') || null,
        limit: textOf(sent, 'enhanced') === '' ? PART_MAX : STEP_MAX,
        actor,
      })
      const done = numberOf(textOf(sent, 'done')) + examined
      const queued = numberOf(textOf(sent, 'queued')) + events
      const back = link(`/endpoints/${endpoint.id}`)
      const count = t.count(queued, '1 event queued', '{0} events queued')
      const content =
        next === null
          ? html`${notice('good', count, html`<p>${t.count(done, '1 resource processed.', '{0} resources processed.')}</p>`)}
<p>${buttonLink(back, t`View endpoint`, 'main')}</p>`
          : continuation(context, {
              ...{ done, total, stop: back, action: link(`/endpoints/${endpoint.id}/backfill`) },
              text: `${total > done ? t`${done} of ${total} resources processed` : t`${done} resources processed`} · ${count}`,
              hidden: { after: next, queued: String(queued) },
              fields: types.map((type) => html`<input type="hidden" name="type" value="${type}">`),
            })
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

/** Counts the records that a backfill would read, at most 10,000 of each type. */
async function countRecords(
  { settings, access, params }: Context,
  types: readonly BackfillType[],
): Promise<number> {
  const preview = await settings.endpoints.previewBackfill(access.organizationId, params.id ?? '', { types })
  return Object.values(preview.records).reduce((sum, count) => sum + count, 0)
}

/** Returns the types that an endpoint can be sent for existing records. */
export function backfillTypes({ types }: WebhookEndpoint): readonly BackfillType[] {
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
  const offered = backfillTypes(endpoint)
  const back = link(`/endpoints/${endpoint.id}`)
  const content = html`${message}
<p class="ba-lead">${t`Send a .created event for each existing resource. Resources already sent are skipped, and new events are sent first.`}</p>
${
  offered.length === 0
    ? html`<p>${t`This endpoint doesn't receive .created events.`} ${buttonLink(back, t`Back`)}</p>`
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
  return { title: t`Backfill existing resources`, content, up: upOf(context, endpoint) }
}
