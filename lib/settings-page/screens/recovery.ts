import { isIdOf } from '../../base/ids.ts'
import { DELIVERY_COUNT_MAX } from '../../webhooks/outlook.ts'
import type { Context, Screen, ScreenPage } from '../context.ts'
import { textOf } from '../form-values.ts'
import { html } from '../html.ts'
import { confirmationPage } from '../views/confirmation.ts'
import { form } from '../views/form.ts'
import { buttonLink } from '../views/link.ts'
import { empty, notice } from '../views/notice.ts'
import { readDeliveryFilter } from './deliveries.ts'

/** Deliveries of a part: some seconds of work. */
const PART_MAX = 5000

/** `/deliveries/recover`: sends failed and skipped deliveries again, in parts short enough for one request. */
export const recovery = {
  async ask(context: Context): Promise<ScreenPage> {
    const { settings, access, t, link, query } = context
    const { texts, filter: given } = readDeliveryFilter(context, query, false)
    // Later deliveries are not in the question: the form sends again what was counted. The newest tells the store's time.
    const [newest] = (await settings.deliveries.list(access.organizationId, { limit: 1 })).data
    const end = newest ? Date.parse(newest.createdAt) + 1 : 0
    const filter = { ...given, until: new Date(Math.min(end, given.until?.getTime() ?? end)) }
    const { failed, skipped } = await settings.deliveries.countRecoverable(access.organizationId, filter)
    const count = failed + skipped
    const back = link('/deliveries', texts)
    const title = t`Resend failed deliveries?`
    if (count === 0) {
      return {
        title,
        content: empty(t`No failed or skipped deliveries match these filters.`, buttonLink(back, t`Back`)),
      }
    }
    return confirmationPage(context, {
      title,
      consequences: [
        count >= DELIVERY_COUNT_MAX
          ? t`${DELIVERY_COUNT_MAX} or more failed and skipped deliveries match these filters.`
          : t.count(
              count,
              '1 failed or skipped delivery matches these filters.',
              '{0} failed and skipped deliveries match these filters.',
            ),
        t`Each is resent with the same event ID. Deliveries to deleted endpoints can't be resent, and deliveries to disabled endpoints are skipped again.`,
      ],
      action: link('/deliveries/recover'),
      back,
      verb: t.count(count, 'Resend 1', 'Resend {0}'),
      hidden: hiddenOf(texts, filter),
    })
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, t, link, form: sent } = context
    const values = { get: (name: string) => textOf(sent, name) }
    const { texts, filter } = readDeliveryFilter(context, values, false)
    // The period of the question, although time has passed since.
    const [since, until] = [readMoment(values.get('since')), readMoment(values.get('until'))]
    const cursor = values.get('before')
    const before = isIdOf('dlv', cursor) ? cursor : null
    const scope = { ...filter, ...(since && { since }), ...(until && { until }) }
    const { recovered, next } = await settings.deliveries.recover(access.organizationId, {
      ...scope,
      limit: PART_MAX,
      before,
      actor: access.actor,
    })
    const text = t.count(recovered, '1 delivery queued', '{0} deliveries queued')
    const content = html`${notice('good', text, next !== null && html`<p>${t`More deliveries match.`}</p>`)}
${
  next === null
    ? html`<p>${buttonLink(link('/deliveries', texts), t`View deliveries`, 'main')}</p>`
    : form(
        context,
        link('/deliveries/recover'),
        { ...hiddenOf(texts, scope), before: next },
        null,
        html`<button class="ba-button ba-button-main">${t`Continue`}</button>${buttonLink(link('/deliveries', texts), t`Stop`)}`,
      )
}`
    return { title: t`Resend failed deliveries`, content }
  },
}

/** The hidden fields of a question: the filter, with the moments of its period. */
function hiddenOf(
  texts: Readonly<Record<string, string>>,
  { since, until }: { readonly since?: Date | undefined; readonly until?: Date | undefined },
): Record<string, string> {
  const hidden = { ...texts, since: since?.toISOString() ?? '', until: until?.toISOString() ?? '' }
  return Object.fromEntries(Object.entries(hidden).filter(([, value]) => value !== ''))
}

function readMoment(text: string): Date | null {
  return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text) && !Number.isNaN(Date.parse(text)) ? new Date(text) : null
}
