import { BusinessApiError, INVALID_STATE, NOT_FOUND } from '../../base/errors.ts'
import { isIdOf } from '../../base/ids.ts'
import { DELIVERY_COUNT_MAX } from '../../webhooks/outlook.ts'
import type { Act, Context, Screen, ScreenPage } from '../context.ts'
import { isFiltered, numberOf, textOf, textsOf } from '../form-values.ts'
import { html } from '../html.ts'
import { confirmationPage } from '../views/confirmation.ts'
import { buttonLink, empty, notice } from '../views/elements.ts'
import { continuation } from '../views/progress.ts'
import { RESEND, readDeliveryFilter, show } from './deliveries.ts'

/** Maximum number of deliveries per request, which takes some seconds. */
const PART_MAX = 5000
/** Maximum number of deliveries per request of the script, which shows the progress. */
const STEP_MAX = 1000

/** `/deliveries/recover`: resends failed and skipped deliveries, in parts that fit into a request. */
export const recovery = {
  async ask(context: Context): Promise<ScreenPage> {
    const { settings, access, t, link, query } = context
    const { texts, filter: given } = readDeliveryFilter(context, query, false)
    // Only the counted deliveries are resent, so the newest one, in the store's time, ends the period.
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
        content: empty(
          isFiltered(texts)
            ? t`No failed or skipped deliveries match these filters.`
            : t`No failed or skipped deliveries.`,
          buttonLink(back, t`Back`),
        ),
      }
    }
    return confirmationPage(context, {
      title,
      consequences: [
        count >= DELIVERY_COUNT_MAX
          ? t`${DELIVERY_COUNT_MAX} or more failed and skipped deliveries will be resent.`
          : skipped === 0
            ? t.count(failed, '1 failed delivery will be resent.', '{0} failed deliveries will be resent.')
            : failed === 0
              ? t.count(
                  skipped,
                  '1 skipped delivery will be resent.',
                  '{0} skipped deliveries will be resent.',
                )
              : t`${failed} failed and ${skipped} skipped deliveries will be resent.`,
        ...(isFiltered(texts) ? [scopeText(context, texts)] : []),
        await resendText(context, texts.endpoint),
      ],
      // With the filter, so reloading the result asks about the same deliveries.
      action: link('/deliveries/recover', texts),
      back,
      verb: t.count(count, ...RESEND),
      hidden: { ...hiddenOf(texts, filter), total: String(count) },
      isSafe: true,
    })
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, t, link, form: sent } = context
    const values = { get: (name: string) => textOf(sent, name) }
    const { texts, filter } = readDeliveryFilter(context, values, false)
    // The confirmed period, even if time has passed.
    const [since, until] = [readMoment(values.get('since')), readMoment(values.get('until'))]
    const cursor = values.get('before')
    const before = isIdOf('dlv', cursor) ? cursor : null
    const scope = { ...filter, ...(since && { since }), ...(until && { until }) }
    const { recovered, next } = await settings.deliveries.recover(access.organizationId, {
      ...scope,
      limit: textOf(sent, 'enhanced') === '' ? PART_MAX : STEP_MAX,
      before,
      actor: access.actor,
    })
    const done = numberOf(values.get('done')) + recovered
    const total = numberOf(values.get('total'))
    const back = link('/deliveries', texts)
    const content =
      next === null
        ? html`${notice('good', t.count(done, '1 delivery queued', '{0} deliveries queued'))}
<p>${buttonLink(back, t`View deliveries`, 'main')}</p>`
        : continuation(context, {
            ...{ done, total, stop: back, action: link('/deliveries/recover', texts) },
            text: total > done ? t`${done} of ${total} deliveries queued` : t`${done} deliveries queued`,
            hidden: { ...hiddenOf(texts, scope), before: next },
          })
    return { title: t`Resend failed deliveries`, content }
  },
}

/** Describes what resending does, and why some deliveries aren't sent. @param endpointId the only endpoint; `undefined` if there may be others */
async function resendText({ settings, access, t }: Context, endpointId?: string): Promise<string> {
  const endpoints = (await settings.endpoints.list(access.organizationId)).filter(
    ({ id }) => endpointId === undefined || id === endpointId,
  )
  const texts = [t`Each is resent with the same event ID.`]
  if (endpointId === undefined) texts.push(t`Deliveries to deleted endpoints can't be resent.`)
  if (endpoints.some(({ state }) => state === 'disabled'))
    texts.push(t`Deliveries to disabled endpoints are skipped again.`)
  return texts.join(' ')
}

function scopeText({ t }: Context, { endpoint, ...others }: Readonly<Record<string, string>>): string {
  return endpoint !== undefined && !isFiltered(others)
    ? t`Only deliveries to this endpoint.`
    : t`The list's filters apply, except for the status.`
}

/** Returns a confirmation's hidden fields: the filter and the exact period. */
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

// --- Selected deliveries ---

/** `/deliveries/resend`: resends the selected deliveries. Without the script, whose button counts them, a page does. */
export const selection: Act = { ask: show, act: resend }

async function resend(context: Context): Promise<Screen> {
  const { settings, access, form, link, query, t } = context
  const given = textsOf(form, 'id').flatMap((text) => text.split(' '))
  const ids = [...new Set(given)].filter((id) => isIdOf('dlv', id)).slice(0, SELECTION_MAX)
  // The list with its filter and page.
  const shown = { ...readDeliveryFilter(context, query, true).texts, before: query.get('before') }
  if (ids.length > 0 && textOf(form, 'enhanced') === '' && textOf(form, 'confirmed') === '') {
    return confirmationPage(context, {
      title: t`Resend selected deliveries?`,
      consequences: [
        t.count(ids.length, '1 delivery will be resent.', '{0} deliveries will be resent.'),
        await resendText(context),
      ],
      action: link('/deliveries/resend', shown),
      back: link('/deliveries', shown),
      verb: t.count(ids.length, ...RESEND),
      hidden: { id: ids.join(' '), confirmed: '1' },
      isSafe: true,
    })
  }
  const sent = await Promise.all(
    ids.map((id) =>
      settings.deliveries.redeliver(access.organizationId, id, { actor: access.actor }).then(
        () => true,
        (error) => {
          if (error instanceof BusinessApiError && [INVALID_STATE, NOT_FOUND].includes(error.code as never))
            return false
          throw error
        },
      ),
    ),
  )
  const count = sent.filter((isSent) => isSent).length
  const numbers = { resent: String(count), left: String(sent.length - count) }
  return { location: link('/deliveries', { ...shown, ...numbers }) }
}

/** Maximum number of selected deliveries: one page of the list. */
const SELECTION_MAX = 50
