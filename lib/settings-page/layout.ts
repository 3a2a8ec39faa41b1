import { readSync } from '../base/options.ts'
import type { Ability } from './access.ts'
import type { Frame, ScreenPage } from './context.ts'
import { attributes, type Html, html, toMarkup } from './html.ts'
import type { LayoutParts, ResolvedOptions } from './options.ts'

/** The URL paths of the two assets. */
export interface AssetPaths {
  readonly stylesheet: string
  readonly script: string
}

interface Rendering {
  /** The path below the mount path. */
  readonly path: string
  readonly assets: AssetPaths
  readonly csp: string
}

/** Renders the whole document, using the host's layout if set. */
export function renderDocument(
  page: ScreenPage,
  frame: Frame,
  { path, assets, csp }: Rendering,
  { layout, logo, stylesheet }: Pick<ResolvedOptions, 'layout' | 'logo' | 'stylesheet'>,
): string {
  const { access, t, settings } = frame
  const section = sectionsFor(frame).find(({ path: root }) => isBelow(path, root))
  const isError = (page.status ?? 200) >= 400
  const names = [
    page.title,
    section && section.text !== page.title ? section.text : null,
    t`Developer settings`,
    settings.service.name ?? null,
  ]
  const title = `${isError ? `${t`Error`}: ` : ''}${names.filter((name) => name !== null).join(' – ')}`
  const { nonce } = access
  const head = html`<title>${title}</title>
<link rel="stylesheet" href="${assets.stylesheet}"${attributes({ nonce })}>${
    stylesheet &&
    html`
<link rel="stylesheet" href="${stylesheet}"${attributes({ nonce })}>`
  }
<script type="module" src="${assets.script}"${attributes({ nonce })}></script>`
  const parts: LayoutParts = {
    title: toMarkup(title),
    head: toMarkup(head),
    body: toMarkup(renderBody(page, frame, path, logo)),
    lang: toMarkup(access.locale),
    nonce: nonce ?? '',
    csp,
  }
  return layout ? readSync('layout', layout(parts)) : renderOwnDocument(parts)
}

function renderOwnDocument({ lang, head, body }: LayoutParts): string {
  return `<!doctype html>
<html lang="${lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<link rel="icon" href="data:,">
${head}
</head>
<body class="ba-document">
${body}
</body>
</html>
`
}

function renderBody(page: ScreenPage, frame: Frame, path: string, logo: string | undefined): Html {
  const { access, t, link } = frame
  return html`<div class="ba">
<a class="ba-skip" href="#ba-main">${t`Skip to content`}</a>
<header class="ba-header">
${logo && html`<img class="ba-logo" src="${logo}" alt="">`}
<p class="ba-brand"><a href="${link('/')}">${t`Developer settings`}</a>${
    access.organizationName !== '' && html` <span>${access.organizationName}</span>`
  }</p>
<nav class="ba-nav" aria-label="${t`Developer settings`}"><ul>
${sectionsFor(frame).map(
  ({ path: root, text }) =>
    html`<li><a href="${link(root)}"${attributes({ 'aria-current': currentOf(path, root) })}>${text}</a></li>
`,
)}</ul></nav>
</header>
<main class="ba-main" id="ba-main" tabindex="-1">
${page.up && html`<p class="ba-up"><a href="${page.up.href}">${page.up.text}</a></p>`}
<div class="ba-heading"><h1 tabindex="-1">${page.title}${page.badge && html` ${page.badge}`}</h1>${page.acts && html`<div class="ba-acts">${page.acts}</div>`}</div>
${page.content}
</main>
<p class="ba-status" role="status" data-status data-organization="${access.organizationId}" data-waiting="${t`Sending… This can take up to 10 seconds.`}" data-copied="${t`Copied`}" data-failed="${t`Couldn't reach the server. Your change may have been saved. Check before trying again.`}" data-signed-out="${t`Session expired. Sign in again in another tab, then try again. Your input is kept.`}" data-filtered="${t`List updated`}" data-nothing="${t`No results`}" data-pause="${t`Pause live updates`}" data-resume="${t`Resume live updates`}"></p>
</div>`
}

function currentOf(path: string, root: string): string | null {
  if (path === root) return 'page'
  return isBelow(path, root) ? 'true' : null
}

function isBelow(path: string, root: string): boolean {
  return path === root || (root !== '/' && path.startsWith(`${root}/`))
}

interface Section {
  readonly path: string
  readonly text: string
}

function sectionsFor({ access, t, reference }: Frame): readonly Section[] {
  const all: readonly (Section & { readonly ability: Ability | null })[] = [
    { path: '/', text: t`Overview`, ability: null },
    { path: '/keys', text: t`API keys`, ability: 'keys:read' },
    { path: '/endpoints', text: t`Webhook endpoints`, ability: 'endpoints:read' },
    { path: '/events', text: t`Events`, ability: 'deliveries:read' },
    { path: '/deliveries', text: t`Deliveries`, ability: 'deliveries:read' },
    { path: '/requests', text: t`API requests`, ability: 'requests:read' },
    { path: '/audit', text: t`Audit log`, ability: 'audit:read' },
    { path: '/reference', text: t`Reference`, ability: null },
  ]
  // Without a session, the navigation is empty.
  if (access.organizationId === '') return []
  return all.filter(
    ({ path, ability }) =>
      (ability === null || access.can(ability)) && (path !== '/reference' || reference !== null),
  )
}
