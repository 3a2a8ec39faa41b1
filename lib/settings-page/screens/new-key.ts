import { type KeyScope, RESOURCES } from '../../access/scopes.ts'
import { BusinessApiError, LIMIT_REACHED } from '../../base/errors.ts'
import { exampleBody } from '../../resources/example-data.ts'
import type { Route } from '../../resources/own-routes.ts'
import type { CreatedApiKey } from '../../settings/api-keys.ts'
import type { Context, Screen, ScreenPage } from '../context.ts'
import { choiceOf, textOf, textsOf } from '../form-values.ts'
import { type Html, html } from '../html.ts'
import { alreadyMade } from '../views/already-made.ts'
import { codeBlock, secretField } from '../views/copyable.ts'
import { checkbox, fieldset, form, input, type Problems, problemSummary, radios } from '../views/form.ts'
import { buttonLink } from '../views/link.ts'
import { notice } from '../views/notice.ts'
import { keyNameProblem, NAME_MAX, scopedResources } from './key-words.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const EXPIRIES = ['30', '90', '365', 'never', 'date'] as const

/** The values of a sent form. */
interface Wish {
  readonly id: string
  readonly name: string
  readonly scopes: readonly KeyScope[]
  readonly expiry: (typeof EXPIRIES)[number] | null
  readonly date: string
}

/** `/keys/new`: the form. */
export function ask(context: Context): ScreenPage {
  return showForm(context, { id: context.newId('key'), name: '', scopes: [], expiry: null, date: '' }, {})
}

/** Makes the key and shows the key, this once. */
export async function act(context: Context): Promise<Screen> {
  const { settings, access, t } = context
  const wish = readWish(context)
  const expiresAt = readExpiry(wish, context.now)
  const problems = judge(context, wish, expiresAt)
  if (Object.keys(problems).length > 0 || expiresAt === undefined) return showForm(context, wish, problems)
  const { id, name, scopes } = wish
  try {
    const created = await settings.apiKeys.create(access.organizationId, {
      ...(id === '' ? {} : { id }),
      name,
      scopes,
      expiresAt,
      actor: access.actor,
    })
    return showSecret(context, created, t`The key ${name} was made`)
  } catch (error) {
    const made = alreadyMade(error, context, 'key')
    if (made) return made
    if (!(error instanceof BusinessApiError && error.code === LIMIT_REACHED)) throw error
    return showForm(context, wish, {
      name: t`Your organization has as many keys in force as it may. Revoke one that is not needed.`,
    })
  }
}

/** The page with the new key. The form's own answer is this page, so no URL and no cookie ever holds the key. */
export function showSecret(context: Context, created: CreatedApiKey, title: string): ScreenPage {
  const { t, link, reference, settings } = context
  const server = reference?.().server ?? 'https://api.example.com'
  const curl = exampleCall(created, server, settings.service.routes)
  const content = html`${notice('wait', t`Copy it now. It cannot be shown again.`, html`<p>${t`Keep it where your program keeps its other secrets, never in its source.`}</p>`)}
${secretField(t, t`API key`, created.key)}
<h2>${t`Try it`}</h2>
${codeBlock(t, curl, t`A call with the new key`)}
<p>${buttonLink(link(`/keys/${created.id}`), t`I have stored it`, 'main')}</p>`
  return { title, content }
}

/** Writes a call that the key may make; a creation has ids to be filled in. */
function exampleCall({ key, scopes }: CreatedApiKey, server: string, routes: readonly Route[]): string {
  const own = routes.find(
    ({ method, path, scope }) => method === 'GET' && scopes.includes(scope) && !path.includes('{'),
  )
  const scope =
    RESOURCES.map((name): KeyScope => `${name}:read`).find((one) => scopes.includes(one)) ??
    own?.scope ??
    scopes[0] ??
    'clients:read'
  const path = own?.scope === scope ? own.path : `/${scope.slice(0, scope.indexOf(':'))}`
  const body = JSON.stringify(exampleBody(scope))?.replaceAll(/_\w{26}/g, '_…')
  const lines = [`curl ${server}/api/v1${path}`, `-H 'Authorization: Bearer ${key}'`]
  return [...lines, ...(body ? ["-H 'Content-Type: application/json'", `-d '${body}'`] : [])].join(' \\\n  ')
}

function readWish({ form, access }: Context): Wish {
  const chosen = textsOf(form, 'scope')
  return {
    id: textOf(form, 'id'),
    name: textOf(form, 'name'),
    // A key can do no more than the person who makes the key: every other scope of the form is dropped.
    scopes: access.grantableScopes.filter((scope) => chosen.includes(scope)),
    expiry: choiceOf(form, 'expiry', EXPIRIES),
    date: textOf(form, 'date'),
  }
}

/** Returns the moment at which the key expires; undefined for an invalid choice. */
function readExpiry({ expiry, date }: Wish, now: number): string | null | undefined {
  if (expiry === null) return undefined
  if (expiry === 'never') return null
  const end = expiry === 'date' ? Date.parse(`${date}T23:59:59Z`) : now + Number(expiry) * DAY_MS
  return end > now && end < Date.UTC(10_000) ? new Date(end).toISOString() : undefined
}

function judge({ t }: Context, wish: Wish, expiresAt: string | null | undefined): Problems {
  const isDate = wish.expiry === 'date'
  const nameProblem = keyNameProblem(t, wish.name)
  return {
    ...(nameProblem !== null && { name: nameProblem }),
    ...(wish.scopes.length === 0 && { scope: t`Choose at least one thing that the key may do` }),
    ...(expiresAt === undefined && {
      [isDate ? 'date' : 'expiry']: isDate ? t`Give a day to come` : t`Choose when the key expires`,
    }),
  }
}

function showForm(context: Context, wish: Wish, problems: Problems): ScreenPage {
  const { t, link, query } = context
  const isRefused = Object.keys(problems).length > 0
  const title = t`New API key`
  const content = html`${problemSummary(t`The key was not made`, problems)}
${form(
  context,
  link('/keys/new'),
  { id: wish.id },
  html`${input(
    {
      name: 'name',
      label: t`Name`,
      hint: t`Which program will use it: “Website”, “Nightly export”`,
      problems,
    },
    { value: wish.name || query.get('name'), maxlength: NAME_MAX, autocomplete: 'off', required: true },
  )}
${fieldset({ name: 'scope', label: t`What may it do?`, problems }, scopeTable(context, wish.scopes))}
${radios(
  { name: 'expiry', label: t`When does it expire?`, problems },
  [
    { value: '30', text: t`In 30 days` },
    { value: '90', text: t`In 90 days` },
    { value: '365', text: t`In a year` },
    { value: 'never', text: t`Never` },
    { value: 'date', text: t`At the end of a day (UTC)` },
  ],
  wish.expiry,
  input({ name: 'date', label: t`Day`, problems }, { type: 'date', value: wish.date }),
)}`,
  html`<button class="ba-button ba-button-main">${t`Create key`}</button>${buttonLink(link('/keys'), t`Cancel`)}`,
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
    return html`<div class="ba-scope"><span aria-hidden="true">${text}</span>${box(read, t`read`, name === first ? 'scope' : null)}${box(write, t`write`, null)}</div>`
  })}</div>`
}
