import { scopesOf } from '../access/scopes.ts'
import { BusinessApiError, INVALID_STATE, storeUnavailable } from '../base/errors.ts'
import { createIds } from '../base/ids.ts'
import { readHaving } from '../base/options.ts'
import { withDeadline } from '../base/time.ts'
import { readForm } from '../http/body.ts'
import { isFetchRequest } from '../http/fetch.ts'
import type { ApiReply, ApiRequest } from '../http/message.ts'
import { type Handler, type Mounted, mount, type Received } from '../http/mount.ts'
import { Refusal } from '../http/refusal.ts'
import { createReport, isRequestId } from '../http/report.ts'
import { splitTarget } from '../http/target.ts'
import type { DeveloperSettings } from '../settings/developer-settings.ts'
import { type Access, check, type ResolvedAccess, readAccess } from './access.ts'
import type { Context, Frame, Screen } from './context.ts'
import { createAssets } from './create-assets.ts'
import { foreignForm, isStale, readVersion, stampOf } from './form-stamp.ts'
import { createFormat } from './format.ts'
import { renderDocument } from './layout.ts'
import {
  type ResolvedOptions,
  readOptions,
  type SettingsPageOptions,
  type SettingsPageRequest,
} from './options.ts'
import { createReference } from './reference.ts'
import { contentSecurityPolicy, downloadReply, htmlReply, type ReplyContext, redirectReply } from './reply.ts'
import { type FoundRoute, findRoute, type WrongMethod } from './routes.ts'
import { showFailure } from './screens/failure.ts'
import { createTexts } from './texts.ts'

/** The page's request handler for node:http, Express and fetch. An interface, so that your declarations name this type. */
export interface SettingsPage extends Mounted {}

/**
 * Serves an organization's developer settings as HTML pages: API keys, webhook endpoints, logs and the API reference. The pages work
 * without JavaScript. Creating them opens no connection and starts no timer.
 *
 * @param settings the result of `createDeveloperSettings`
 * @throws `TypeError` naming the invalid option
 * @example
 * ```ts
 * const page = createSettingsPage(settings, {
 *   authorize: () => ({ organizationId: 'org_42', actor: user.id, can: 'everything' }),   // from your session
 * })
 * app.use('/settings/developer', page)
 * ```
 */
export function createSettingsPage(
  settings: DeveloperSettings<string, string>,
  options: SettingsPageOptions,
): SettingsPage {
  readHaving('The settings', settings, 'endpoints.register', 'createDeveloperSettings()')
  const resolved = readOptions(options)
  return mount(createHandler(settings, resolved), resolved.basePath)
}

const FORM_BYTES_MAX = 65_536

/** The access of requests without a session. It shows no section and no organization. */
const NO_ACCESS: ResolvedAccess = {
  ...readAccess({ organizationId: '-', actor: '-', can: [] }),
  organizationId: '',
}

interface PageExchange {
  readonly request: ApiRequest
  readonly received: Received
  /** The path below the mount path. */
  readonly path: string
  readonly query: URLSearchParams
  readonly requestId: string
  access: ResolvedAccess
}

/** Creates the request handler: assets first, then `authorize`, the route and the response. */
function createHandler(settings: DeveloperSettings<string, string>, options: ResolvedOptions): Handler {
  const assets = createAssets(options.themeCss)
  const report = createReport(options.logger, options.onError)
  const reference = createReference(options.api)
  const spareIds = createIds()
  let isWarned = settings.capabilities.signing

  async function handle(request: ApiRequest, received: Received): Promise<ApiReply | null> {
    const target = splitTarget(request.url, received.basePath)
    if (target === null) return null
    // The lookbehind prevents a search from each slash of a long path.
    const path = target.path.replace(/(?<!\/)\/+$/, '') || '/'
    const query = new URLSearchParams(target.query)
    const requestId = newRequestId()
    const exchange: PageExchange = { request, received, path, query, requestId, access: NO_ACCESS }
    const asset = assets.find(path)
    if (asset) return asset
    try {
      return await answer(exchange)
    } catch (error) {
      return fail(error, exchange)
    }
  }

  async function answer(exchange: PageExchange): Promise<ApiReply> {
    const { request, received, path, query } = exchange
    const asked = Promise.resolve(options.authorize(toPageRequest(request, received)))
    const given = await withDeadline(asked, AUTHORIZE_MS, tooLate)
    if (given === null || given === undefined) throw new Refusal(401, 'signed out')
    if (typeof given === 'object' && 'redirect' in given) {
      check(Object.keys(given).length === 1, 'it must be the redirect alone, or an access')
      // The script would follow the redirect and show the sign-in page as the form's result.
      if (request.header('x-ba-enhanced') !== undefined) throw new Refusal(401, 'signed out')
      return redirectReply(readRedirect(given.redirect), replyContext(exchange))
    }
    exchange.access = readAccess(given as Access, scopesOf(settings.service))
    if (!isWarned) {
      isWarned = true
      options.logger.warn(
        {},
        "Settings page without signing: give createDeveloperSettings the option 'secretKeys'",
      )
    }
    const found = findRoute(request.method, path)
    const isPost = request.method === 'POST'
    if (isPost && !isSameOrigin(request, received, options.origins)) throw new Refusal(403, 'another origin')
    const form = isPost ? await readForm(request, FORM_BYTES_MAX) : new Map()
    const frame = frameOf(exchange)
    const foreign = foreignForm(form, frame)
    // Before abilities are checked, because they belong to the session's organization and not to the form's.
    if (foreign !== null) return reply(foreign, exchange)
    const { access } = exchange
    if (found && 'allow' in found && found.page !== null)
      return reply({ location: frame.link(found.page, Object.fromEntries(query)) }, exchange)
    const route = allowed(found, access)
    const { locale, timeZone } = access
    const shared = isPost ? settings : readingOnce(settings)
    const show = async (): Promise<ApiReply> => {
      const asked = { settings: shared, access, params: route.params }
      const { version, seen } = await readVersion(asked, route.path)
      const context: Context = {
        ...frame,
        ...asked,
        seen,
        stamp: stampOf(access, version),
        isStale: isStale(form, version),
        format: createFormat(locale, timeZone),
        now: options.clock(),
        query,
        referrer: readReferrer(request.header('referer')),
        form,
        newId: options.ids,
        keyRateLimit: options.api?.keyRateLimit ?? null,
      }
      return reply(await route.show(context), exchange)
    }
    return await show().catch((error) => {
      // Another change was saved first, so the form is now stale.
      if (isPost && error instanceof BusinessApiError && error.code === INVALID_STATE) return show()
      throw error
    })
  }

  function reply(screen: Screen, exchange: PageExchange): ApiReply {
    const context = replyContext(exchange)
    if ('location' in screen) return redirectReply(screen.location, context)
    if ('fileName' in screen) return downloadReply(screen, context)
    const rendering = {
      path: exchange.path,
      assets: assets.pathsBelow(exchange.received.publicPath),
      csp: context.csp,
    }
    const document = renderDocument(screen, frameOf(exchange), rendering, options)
    return htmlReply(screen.status ?? 200, document, context)
  }

  function fail(error: unknown, exchange: PageExchange): ApiReply {
    const { request, requestId, path } = exchange
    const screen = showFailure(error, frameOf(exchange), { requestId, method: request.method })
    const status = screen.status ?? 500
    // A value that the database rejects may be a bug in this library: see rejection() in postgres/.
    const isRejected = error instanceof Error && error.cause !== undefined
    if ((status >= 500 || isRejected) && !(error instanceof Refusal))
      report(error, { requestId, method: request.method, path, status })
    try {
      return reply(screen, exchange)
    } catch (layoutError) {
      report(layoutError, { requestId, method: request.method, path, status: 500 })
      return htmlReply(500, '<!doctype html><title>Error</title><p>Internal error', replyContext(exchange))
    }
  }

  function frameOf({ access, received }: PageExchange): Frame {
    return {
      access,
      settings,
      reference,
      t: createTexts(access.locale, options.texts),
      link: (path, query) => `${received.publicPath}${path}${queryText(query)}` || '/',
    }
  }

  function replyContext({ requestId, access }: PageExchange): ReplyContext {
    const { frameAncestors } = options
    return { requestId, frameAncestors, csp: contentSecurityPolicy(frameAncestors, access.nonce) }
  }

  function newRequestId(): string {
    try {
      const id = options.ids('req')
      return isRequestId(id) ? id : spareIds('req')
    } catch {
      return spareIds('req')
    }
  }

  return {
    handle,
    notFound(request) {
      const basePath = options.basePath ?? ''
      const received = { raw: null as never, basePath, publicPath: basePath }
      const exchange = {
        request,
        received,
        path: '',
        query: new URLSearchParams(),
        requestId: newRequestId(),
        access: NO_ACCESS,
      }
      return fail(new Refusal(404, 'not below the mount path'), exchange)
    },
  }
}

/** Returns the route if the person may use it. @throws `Refusal` 404 without the read ability, 403 without the write ability */
function allowed(route: FoundRoute | WrongMethod | null, access: ResolvedAccess): FoundRoute {
  if (route === null) throw new Refusal(404, 'no such path')
  if ('allow' in route) throw new Refusal(405, 'wrong method', { Allow: route.allow })
  if (route.reads !== null && !access.can(route.reads)) throw new Refusal(404, 'no such path')
  if (route.writes !== undefined && !access.can(route.writes)) throw new Refusal(403, 'not allowed')
  return route
}

/** Caches reads within a request that changes nothing, because the version check and the page read the same records. */
function readingOnce({
  apiKeys,
  endpoints,
  deliveries,
  audit,
  ...others
}: DeveloperSettings<string, string>): DeveloperSettings<string, string> {
  function once<Given extends readonly unknown[], Found>(read: (...given: Given) => Promise<Found>) {
    const found = new Map<string, Promise<Found>>()
    return (...given: Given): Promise<Found> => {
      const key = JSON.stringify(given)
      const known = found.get(key) ?? read(...given)
      found.set(key, known)
      return known
    }
  }
  return {
    ...others,
    apiKeys: { ...apiKeys, get: once(apiKeys.get) },
    endpoints: { ...endpoints, get: once(endpoints.get) },
    deliveries: { ...deliveries, get: once(deliveries.get) },
    audit: { ...audit, list: once(audit.list) },
  }
}

function toPageRequest(request: ApiRequest, { raw }: Received): SettingsPageRequest {
  return {
    method: request.method,
    url: request.url,
    raw,
    header: (name: string) => request.header(name.toLowerCase()),
  }
}

/** A path or http(s) URL with characters that are valid in a header. */
function readRedirect(redirect: unknown): string {
  const isPath = typeof redirect === 'string' && /^\/\S*$/.test(redirect)
  const isUrl = typeof redirect === 'string' && /^https?:\/\/\S*$/.test(redirect) && URL.canParse(redirect)
  check(isPath || isUrl, 'redirect must be a path or an http(s) URL')
  const target = isPath ? redirect : new URL(redirect).href
  return target.replaceAll(/[^!-~]+/g, (characters) => encodeURIComponent(characters))
}

function readReferrer(referer = ''): string {
  if (!URL.canParse(referer)) return ''
  const { pathname, search } = new URL(referer)
  return pathname + search
}

function queryText(query: Readonly<Record<string, string | null | undefined>> = {}): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value ? [[name, value] as [string, string]] : [],
  )
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`
}

/** Timeout of `authorize`, in ms. */
const AUTHORIZE_MS = 5000

function tooLate(): never {
  throw storeUnavailable(
    `Cannot show the page because option 'authorize' has not answered within ${AUTHORIZE_MS} ms`,
  )
}

/**
 * Returns whether a form was submitted from the same origin. Browsers send this in `Sec-Fetch-Site`, which scripts can't set. Without
 * that header, as in old browsers and over plain http, `Origin` must match the requested scheme and host. Unlike SameSite cookies, this
 * also rejects forms from sibling subdomains.
 *
 * @param origins additional origins that are allowed
 */
function isSameOrigin(request: ApiRequest, { raw }: Received, origins: readonly string[]): boolean {
  const site = request.header('sec-fetch-site')
  if (site !== undefined) return site === 'same-origin'
  const origin = request.header('origin')
  const host = request.header('host')
  if (origin === undefined || !URL.canParse(origin)) return false
  const { protocol, host: sentFrom } = new URL(origin)
  return origins.includes(origin) || (protocol === schemeOf(request, raw) && sentFrom === host?.toLowerCase())
}

/** Returns the request's scheme. The proxy header can be trusted here because pages of other origins can't send it. */
function schemeOf(request: ApiRequest, raw: Received['raw']): string {
  const [forwarded = ''] = request.header('x-forwarded-proto')?.split(',', 1) ?? []
  if (forwarded !== '') return `${forwarded.trim().toLowerCase()}:`
  if (isFetchRequest(raw)) return new URL(raw.url).protocol
  return 'encrypted' in raw.socket && raw.socket.encrypted === true ? 'https:' : 'http:'
}
