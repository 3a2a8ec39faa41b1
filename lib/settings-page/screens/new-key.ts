import { isRateLimit, type RateLimit } from '../../access/rate-limit.ts'
import { type KeyScope, RESOURCES } from '../../access/scopes.ts'
import { BusinessApiError, LIMIT_REACHED } from '../../base/errors.ts'
import { exampleBody } from '../../resources/example-data.ts'
import type { Route } from '../../resources/own-routes.ts'
import type { CreatedApiKey } from '../../settings/api-keys.ts'
import type { Context, Screen, ScreenPage } from '../context.ts'
import { choiceOf, textOf, textsOf } from '../form-values.ts'
import { type Html, html } from '../html.ts'
import { alreadyMade, buttonLink, notice, secretField } from '../views/elements.ts'
import { checkbox, fieldset, form, input, type Problems, problemSummary, radios } from '../views/form.ts'
import { callCode, type ExampleCall } from './call-code.ts'
import { keyNameProblem, NAME_MAX, scopedResources } from './key-words.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const EXPIRIES = ['30', '90', '365', 'never', 'date'] as const

interface Wish {
  readonly id: string
  readonly name: string
  readonly scopes: readonly KeyScope[]
  readonly expiry: (typeof EXPIRIES)[number] | null
  readonly date: string
  /** Requests per second and burst. If empty, the API's limit applies. */
  readonly perSecond: string
  readonly burst: string
}

/** `/keys/new`: the form. */
export function ask(context: Context): ScreenPage {
  const scopes = context.access.grantableScopes.filter((scope) => scope.endsWith(':read'))
  const texts = { name: '', date: '', perSecond: '', burst: '' }
  return showForm(context, { id: context.newId('key'), scopes, expiry: null, ...texts }, {})
}

/** Creates the key and shows it once. */
export async function act(context: Context): Promise<Screen> {
  const { settings, access, t } = context
  const wish = readWish(context)
  const expiresAt = readExpiry(wish, context.now)
  const rateLimit = readLimit(wish)
  const problems = judge(context, wish, expiresAt, rateLimit)
  if (Object.keys(problems).length > 0 || expiresAt === undefined || rateLimit === undefined)
    return showForm(context, wish, problems)
  const { id, name, scopes } = wish
  try {
    const created = await settings.apiKeys.create(access.organizationId, {
      ...(id === '' ? {} : { id }),
      name,
      scopes,
      expiresAt,
      rateLimit,
      actor: access.actor,
    })
    return showSecret(context, created, t`API key created`)
  } catch (error) {
    const made = alreadyMade(error, context, 'key')
    if (made) return made
    if (!(error instanceof BusinessApiError && error.code === LIMIT_REACHED)) throw error
    return showForm(context, wish, {
      name: t`Limit of active API keys reached. Revoke one you no longer need.`,
    })
  }
}

/**
 * Renders the new key. This is the response to the form itself, so the key is never in a URL or cookie.
 *
 * @param oldKeyExpiresAt when the replaced key expires; `null` if there is none
 */
export function showSecret(
  context: Context,
  created: CreatedApiKey,
  title: string,
  oldKeyExpiresAt: string | null = null,
): ScreenPage {
  const { t, link, format, now, reference, settings } = context
  const server = reference?.().server ?? 'https://api.example.com'
  const call = exampleCall(created, server, settings.service.routes)
  const content = html`${notice('wait', t`Copy it now. You can't view it again.`, html`<p>${t`Store it securely, such as in a secrets manager. Never commit it to source control.`}</p>`)}
${secretField(t, t`API key`, created.key)}
${oldKeyExpiresAt !== null && html`<p>${Date.parse(oldKeyExpiresAt) > now ? t`Previous key expires` : t`Previous key expired`} ${format.time(oldKeyExpiresAt)}</p>`}
<h2>${t`Make your first request`}</h2>
${callCode(t, call, created.key)}
<p>${buttonLink(link(`/keys/${created.id}`), t`Done`, 'main')}</p>`
  return { title, content }
}

/** Returns an example call within the key's scopes, with `…` for IDs to fill in. */
function exampleCall({ scopes }: CreatedApiKey, server: string, routes: readonly Route[]): ExampleCall {
  const own = routes.find(
    ({ method, path, scope }) => method === 'GET' && scopes.includes(scope) && !path.includes('{'),
  )
  const scope =
    RESOURCES.map((name): KeyScope => `${name}:read`).find((one) => scopes.includes(one)) ??
    own?.scope ??
    scopes[0] ??
    'clients:read'
  const path = own?.scope === scope ? own.path : `/${scope.slice(0, scope.indexOf(':'))}`
  const body = JSON.stringify(exampleBody(scope))?.replaceAll(/_\w{26}/g, '_…') ?? null
  return { method: body === null ? 'GET' : 'POST', url: `${server}/api/v1${path}`, body }
}

function readWish({ form, access }: Context): Wish {
  const chosen = textsOf(form, 'scope')
  return {
    id: textOf(form, 'id'),
    name: textOf(form, 'name'),
    // Scopes that the person may not grant are dropped.
    scopes: access.grantableScopes.filter((scope) => chosen.includes(scope)),
    expiry: choiceOf(form, 'expiry', EXPIRIES),
    date: textOf(form, 'date'),
    perSecond: textOf(form, 'perSecond'),
    burst: textOf(form, 'burst'),
  }
}

/** Returns when the key expires; `undefined` for an invalid choice. */
function readExpiry({ expiry, date }: Wish, now: number): string | null | undefined {
  if (expiry === null) return undefined
  if (expiry === 'never') return null
  const end = expiry === 'date' ? Date.parse(`${date}T23:59:59Z`) : now + Number(expiry) * DAY_MS
  return end > now && end < Date.UTC(10_000) ? new Date(end).toISOString() : undefined
}

/** Returns the key's rate limit; `undefined` if invalid. The default burst is ten seconds of requests. */
function readLimit({ perSecond, burst }: Wish): RateLimit | null | undefined {
  if (perSecond === '' && burst === '') return null
  const rate = Number(perSecond)
  const limit = { perSecond: rate, burst: burst === '' ? Math.max(1, Math.ceil(10 * rate)) : Number(burst) }
  return isRateLimit(limit) ? limit : undefined
}

function judge(
  { t }: Context,
  wish: Wish,
  expiresAt: string | null | undefined,
  rateLimit: RateLimit | null | undefined,
): Problems {
  const isDate = wish.expiry === 'date'
  const nameProblem = keyNameProblem(t, wish.name)
  return {
    ...(nameProblem !== null && { name: nameProblem }),
    ...(wish.scopes.length === 0 && { scope: t`Select at least one permission` }),
    ...(expiresAt === undefined && {
      [isDate ? 'date' : 'expiry']: isDate ? t`Enter a future date` : t`Select an expiration`,
    }),
    ...(rateLimit === undefined && { perSecond: t`Enter a positive rate and burst, such as 5 and 50` }),
  }
}

function showForm(context: Context, wish: Wish, problems: Problems): ScreenPage {
  const { t, link, query, keyRateLimit: limit } = context
  const isRefused = Object.keys(problems).length > 0
  const title = t`Create API key`
  const ofDefault =
    limit === null
      ? t`Leave empty for the default limit.`
      : t`Leave empty for the default of ${limit.perSecond} requests per second, bursts of ${limit.burst}.`
  const content = html`${problemSummary(t`Couldn't create API key`, problems)}
${form(
  context,
  link('/keys/new'),
  { id: wish.id },
  html`${input(
    {
      name: 'name',
      label: t`Name`,
      hint: t`e.g. Website, Nightly export`,
      problems,
    },
    { value: wish.name || query.get('name'), maxlength: NAME_MAX, autocomplete: 'off', required: true },
  )}
${fieldset({ name: 'scope', label: t`Permissions`, problems }, scopeTable(context, wish.scopes))}
${radios(
  { name: 'expiry', label: t`Expiration`, problems },
  [
    { value: '30', text: t`30 days` },
    { value: '90', text: t`90 days` },
    { value: '365', text: t`1 year` },
    { value: 'never', text: t`Never` },
    { value: 'date', text: t`Custom date (UTC)` },
  ],
  wish.expiry,
  input({ name: 'date', label: t`Expiration date`, problems }, { type: 'date', value: wish.date }),
)}
${fieldset(
  {
    name: 'limit',
    label: t`Rate limit (optional)`,
    hint: `${ofDefault} ${t`Your organization's limit also applies.`}`,
  },
  html`${input({ name: 'perSecond', label: t`Requests per second`, problems }, { inputmode: 'decimal', value: wish.perSecond, autocomplete: 'off' })}
${input({ name: 'burst', label: t`Burst (requests)`, problems }, { inputmode: 'numeric', value: wish.burst, autocomplete: 'off' })}`,
)}`,
  html`<button class="ba-button ba-button-main">${t`Create API key`}</button>${buttonLink(link('/keys'), t`Cancel`)}`,
)}`
  const up = { href: link('/keys'), text: t`API keys` }
  return { title, content, up, ...(isRefused && { status: 422 }) }
}

function scopeTable({ t, access }: Context, chosen: readonly KeyScope[]): Html {
  const resources = scopedResources(t, access.grantableScopes)
  const first = resources[0]?.name
  return html`<div class="ba-scopes">${resources.map(({ name, text, read, write }) => {
    const box = (scope: KeyScope | null, word: string, id: string | null) =>
      scope &&
      checkbox(
        { name: 'scope', value: scope, id, checked: chosen.includes(scope) },
        html`<span class="ba-hidden">${text}: </span>${word}`,
      )
    return html`<div class="ba-scope"><span aria-hidden="true">${text}</span>${box(read, t`Read`, name === first ? 'scope' : null)}${box(write, t`Write`, null)}</div>`
  })}</div>`
}
