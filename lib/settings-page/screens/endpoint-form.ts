import { BusinessApiError, INVALID_INPUT, LIMIT_REACHED } from '../../base/errors.ts'
import { type EventDefinition, eventTypes, findEvent } from '../../resources/own-events.ts'
import type { EndpointWithSecret } from '../../settings/secret-rotation.ts'
import type { EndpointChoices } from '../../webhooks/endpoint-choices.ts'
import type { WebhookEndpoint } from '../../webhooks/endpoints.ts'
import type { Context, Screen, ScreenPage } from '../context.ts'
import { attributes, type Content, html } from '../html.ts'
import type { Texts } from '../texts.ts'
import {
  alreadyMade,
  buttonLink,
  type Compared,
  codeBlock,
  comparison,
  notice,
  secretField,
} from '../views/elements.ts'
import { checkbox, fieldset, form, input, type Problems, problemSummary, radios } from '../views/form.ts'
import {
  choicesOf,
  choiceText,
  type EndpointWish,
  emptyWish,
  inOrder,
  judgeWish,
  patchOf,
  readWish,
  rebased,
  TEXT_FIELDS,
  wishOf,
} from './endpoint-wish.ts'
import { endpointOf, nameOf, typesByResource } from './endpoint-words.ts'
import { verificationCode } from './verification-code.ts'

/** `/endpoints/new`. */
export const registration = {
  ask(context: Context): ScreenPage {
    const { newId, t, settings } = context
    if (!settings.capabilities.signing) {
      const content = notice('wait', t`Signing isn't configured. Contact support to enable webhooks.`)
      return { title: t`Create endpoint`, content }
    }
    const wish = emptyWish(newId('we'))
    return showForm(context, wish, {}, null)
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, t } = context
    const wish = readWish(context)
    const problems = judgeWish(context, wish, null)
    if (Object.keys(problems).length > 0) return showForm(context, wish, problems, null)
    try {
      const registered = await settings.endpoints.register(access.organizationId, {
        ...(wish.id === '' ? {} : { id: wish.id }),
        ...choicesOf(wish),
        headers: Object.fromEntries(wish.added.map(({ name, value }) => [name, value])),
        actor: access.actor,
      })
      return showSecret(context, registered, t`Endpoint created`)
    } catch (error) {
      return (
        alreadyMade(error, context, 'endpoint') ?? showForm(context, wish, problemsOf(error, context), null)
      )
    }
  },
}

/** `/endpoints/:id/edit`. */
export const change = {
  async ask(context: Context): Promise<ScreenPage> {
    const endpoint = await endpointOf(context)
    if (!context.isStale) return showForm(context, wishOf(endpoint), {}, nameOf(endpoint))
    const wish = rebased(readWish(context), endpoint)
    const page = showForm(context, wish, {}, nameOf(endpoint))
    return { ...page, content: [comparison(context.t, comparedOf(context, endpoint, wish)), page.content] }
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, link, seen } = context
    const { id, ...endpoint } = await endpointOf(context)
    const wish = { ...readWish(context), id }
    const problems = judgeWish(context, wish, endpoint.types)
    if (Object.keys(problems).length > 0) return showForm(context, wish, problems, nameOf(endpoint))
    try {
      const headers = patchOf(wish)
      await settings.endpoints.update(access.organizationId, id, {
        ...choicesOf(wish),
        ...(Object.keys(headers).length > 0 && { headers }),
        ...(seen.version !== undefined && { replaces: { version: seen.version } }),
        actor: access.actor,
      })
      return { location: link(`/endpoints/${id}`, { done: 'changed' }) }
    } catch (error) {
      return showForm(context, wish, problemsOf(error, context), nameOf(endpoint))
    }
  },

  async isDone(context: Context): Promise<boolean> {
    const endpoint = await endpointOf(context)
    return comparedOf(context, endpoint, readWish(context)).every(([, present, yours]) => present === yours)
  },
}

/** Compares the submitted values with the endpoint's current ones. */
function comparedOf(
  { t, settings }: Context,
  endpoint: WebhookEndpoint,
  wish: EndpointWish,
): readonly Compared[] {
  const { types, headerNames } = endpoint
  const namesOf = (some: readonly string[] | null): string =>
    some === null ? t`All events (including future types)` : inOrder(settings, some).join(', ')
  const marks = new Map([
    ['replace', t`Replace value`],
    ['remove', t`Delete`],
  ])
  const headers = [
    ...wish.known.map(({ name, act }) => (marks.has(act) ? `${name} (${marks.get(act)})` : name)),
    ...wish.added.map(({ name }) => `${name} (${t`New value`})`),
  ]
  const wished = choicesOf(wish)
  const signatureOf = (choices: Partial<EndpointChoices>): string =>
    choices.standardWebhooks ? t`On` : t`Off`
  return [
    ...TEXT_FIELDS.map(({ label, choice }): Compared => {
      return [label(t), choiceText(endpoint, choice), choiceText(wished, choice)]
    }),
    [t`Standard Webhooks headers`, signatureOf(endpoint), signatureOf(wished)],
    [t`Events to send`, namesOf(types), namesOf(wish.wants === 'all' ? null : wish.types)],
    [t`Custom headers`, headerNames.join(', '), headers.join(', ')],
  ]
}

/** Renders the signing secret, shown only once, with code that verifies webhooks. */
export function showSecret(context: Context, endpoint: EndpointWithSecret, title: string): ScreenPage {
  const { t, link, settings, format } = context
  const { id, secret, previousSecretExpiresAt } = endpoint
  const content = html`${notice('wait', t`Copy it now. You can't view it again.`, html`<p>${t`Use this secret to verify webhook signatures.`}</p>`)}
${secretField(t, t`Signing secret`, secret)}
${previousSecretExpiresAt !== null && html`<p>${t`Previous secret expires`} ${format.time(previousSecretExpiresAt)}</p>`}
<h2>${t`Verify webhooks`}</h2>
${verificationCode(t, settings.service.headerPrefix)}
<p>${buttonLink(link(`/endpoints/${id}`), t`Done`, 'main')}</p>`
  return { title, content }
}

/** Returns the error messages of fields that the settings rejected. @throws any other error */
function problemsOf(error: unknown, { t }: Context): Problems {
  if (!(error instanceof BusinessApiError)) throw error
  if (error.code === LIMIT_REACHED) {
    return {
      url: t`Limit of endpoints or custom headers reached. Delete one you no longer need.`,
    }
  }
  if (error.code !== INVALID_INPUT || error.cause || error.fields.includes('id')) throw error
  const known: Problems = {
    url: t`Enter a publicly accessible HTTPS URL on port 443, or 1024 or higher`,
    headers: t`Header names must be unique and not reserved; values must be visible ASCII characters`,
    description: t`Enter a valid description`,
    wants: t`Select events from the list`,
  }
  const named = error.fields
    .map((field) => (field === 'types' ? 'wants' : field))
    .filter((field) => field in known)
  return Object.fromEntries((named.length > 0 ? named : ['url']).map((field) => [field, known[field] ?? '']))
}

/** @param name the endpoint's name; `null` for a new endpoint */
function showForm(context: Context, wish: EndpointWish, problems: Problems, name: string | null): ScreenPage {
  const { t, link } = context
  const isNew = name === null
  const back = isNew ? '/endpoints' : `/endpoints/${wish.id}`
  const isRefused = Object.keys(problems).length > 0
  const content = html`${problemSummary(isNew ? t`Couldn't create endpoint` : t`Couldn't save changes`, problems)}
${form(
  context,
  link(isNew ? '/endpoints/new' : `/endpoints/${wish.id}/edit`),
  isNew ? { id: wish.id } : {},
  html`${TEXT_FIELDS.map(({ choice: field, label, hint, attributes: all }) =>
    input(
      { name: field, label: all.required ? label(t) : t`${label(t)} (optional)`, hint: hint(t), problems },
      { ...all, value: wish.texts[field] ?? '' },
    ),
  )}
${radios(
  { name: 'wants', label: t`Events to send`, problems },
  [
    { value: 'all', text: t`All events (including future types)` },
    { value: 'some', text: t`Selected events` },
  ],
  wish.wants,
  typeList(context, wish),
)}
<div class="ba-field">${checkbox({ name: 'standardWebhooks', value: 'yes', checked: wish.standardWebhooks }, t`Include Standard Webhooks headers`)}</div>
${fieldset({ name: 'headers', label: t`Custom headers (optional)`, hint: t`Sent with each event. Values are encrypted and can't be viewed again.`, problems }, headerFields(context, wish))}`,
  html`<button class="ba-button ba-button-main">${isNew ? t`Create endpoint` : t`Save changes`}</button>${buttonLink(link(back), t`Cancel`)}`,
)}`
  return {
    title: isNew ? t`Create endpoint` : t`Edit ${name}`,
    content,
    up: { href: link(back), text: isNew ? t`Webhook endpoints` : name },
    ...(isRefused && { status: 422 }),
  }
}

/** Renders the event types by resource. The script shows the list only if "Selected events" is chosen. */
function typeList({ t, settings }: Context, { types }: EndpointWish): Content {
  const { service } = settings
  const offered = [...new Set([...eventTypes(service), ...types])]
  const chosen = new Set(types)
  const isChosen = (type: string): boolean => chosen.has(type)
  return html`<div class="ba-types" data-types>
<div class="ba-acts" data-tools hidden><input class="ba-input" type="search" aria-label="${t`Filter events`}" placeholder="${t`Filter`}" autocomplete="off" spellcheck="false" data-find><button class="ba-button" type="button" data-tick="yes">${t`Select all`}</button><button class="ba-button" type="button" data-tick="no">${t`Clear`}</button></div>
${typesByResource(offered).map(
  ([
    resource,
    all,
  ]) => html`<div role="group" aria-labelledby="types-${resource}"><h3 id="types-${resource}">${resource}</h3>
${all.length > 1 && groupBox(t, resource, all.every(isChosen))}
${all.map(
  (type) =>
    html`${checkbox({ name: 'type', value: type, checked: isChosen(type) }, type)}${ownType(t, findEvent(service, type))}`,
)}</div>
`,
)}</div>`
}

/**
 * Renders the checkbox of all types of a resource. Endpoints store types, so it is checked if each of them is. In that case a hidden field
 * tells that only the types count, because without the script the box stays checked when a type is cleared.
 */
function groupBox(t: Texts, resource: string, isFull: boolean): Content {
  const attributes = { name: 'group', value: resource, checked: isFull }
  return html`${checkbox(attributes, t`All current ${resource} events`)}${isFull && html`<input type="hidden" name="full-group" value="${resource}">`}`
}

/** Renders the description and example of an event type defined by the host. */
function ownType(t: Texts, event: EventDefinition | undefined): Content {
  if (!event) return null
  const example = JSON.stringify(event.example, null, 2)
  return html`<div class="ba-own-type"><p class="ba-hint">${event.description}</p><details><summary>${t`Example`}</summary>${codeBlock(t, example, t`Example of ${event.type}`)}</details></div>`
}

/** Number of empty header lines, because the page can't add lines without JavaScript. */
const SPARE_HEADERS = 2

function headerFields({ t }: Context, { known, added }: EndpointWish): Content {
  const spare = Array.from({ length: SPARE_HEADERS }, () => ({ name: '', value: '' }))
  // Values are secrets, so a rejected form doesn't repeat them.
  const fresh = [...added.map(({ name }) => ({ name })), ...spare]
  return html`${known.map(
    (
      { name, act },
      index,
    ) => html`<div class="ba-headers"><input type="hidden"${attributes({ name: 'known', value: name })}>
<label for="known-${index}"><code>${name}</code></label><span><select class="ba-input" id="known-${index}" name="known-act">${[
      ['keep', t`Keep value`],
      ['replace', t`Replace value`],
      ['remove', t`Delete`],
    ].map(([value, text]) =>
      value === act
        ? html`<option value="${value}" selected>${text}</option>`
        : html`<option value="${value}">${text}</option>`,
    )}</select>
<input class="ba-input" name="known-value" aria-label="${t`New value of ${name}`}" placeholder="${t`New value`}" autocomplete="off"></span></div>`,
  )}
${fresh.map(
  ({ name }, index) =>
    html`<div class="ba-headers"><input class="ba-input" name="header-name" value="${name}" aria-label="${t`Name of header ${index + 1}`}" placeholder="${t`Name`}" autocomplete="off" spellcheck="false"><input class="ba-input" name="header-value" aria-label="${t`Value of header ${index + 1}`}" placeholder="${t`Value`}" autocomplete="off" spellcheck="false"></div>`,
)}
<button class="ba-button" type="button" data-add hidden>${t`Add header`}</button>`
}
