import type { RateLimit } from '../access/rate-limit.ts'
import { type Clock, type Ids, readIds } from '../base/ids.ts'
import type { Logger } from '../base/log.ts'
import { type Names, readFunction, readLogger, rejectUnknown } from '../base/options.ts'
import type { ErrorContext } from '../http/report.ts'
import type { Access } from './access.ts'
import type { Translations } from './texts.ts'
import { compileTheme, type Theme } from './theme.ts'

/** The request in the form that `authorize` receives. */
export interface SettingsPageRequest<Raw = unknown> {
  readonly method: string
  /** Path and query as sent. */
  readonly url: string
  /** The host's own `IncomingMessage` or `Request`, where middleware leaves sessions. The host names the type: `PageRequest<Request>`. */
  readonly raw: Raw
  /**
   * Returns the value of a header; `undefined` when absent.
   *
   * @param name in lower case
   */
  header(name: string): string | undefined
}

/** The parts of a page for a host's own document. All parts are markup and escaped already. */
export interface LayoutParts {
  /** The text of `<title>`. */
  readonly title: string
  /** The tags for `<head>`: title, stylesheet and script. */
  readonly head: string
  /** The content for `<body>`: a single element. */
  readonly body: string
  /** The value of `lang`. */
  readonly lang: string
  /** The nonce of the access; empty without one. */
  readonly nonce: string
  /** The `Content-Security-Policy` of the answer: the host's own tags must keep to it, or carry the nonce. */
  readonly csp: string
}

/** The parts of `createBusinessApi`'s handler that the page uses. */
export interface DescribedApi {
  describe(): object
  readonly keyRateLimit?: RateLimit | null
}

/** Options of `createSettingsPage`. Each is read once. */
export interface SettingsPageOptions {
  /**
   * Returns the person behind a request, from the host's own session. Called for every request except the two assets, before the body
   * is read, and never cached.
   *
   * @returns the access; `redirect`, a path or URL to sign in at; null for a request without a session
   */
  authorize(
    request: SettingsPageRequest,
  ): Access | { readonly redirect: string } | null | Promise<Access | { readonly redirect: string } | null>
  /** The mount path: `/settings/developer`. Not needed under Express, whose requests carry the mount path. Default the root. */
  basePath?: string | undefined
  /** The handler of `createBusinessApi`, for the reference, the code samples and the rate limits of keys. Default: no reference. */
  api?: DescribedApi | undefined
  /** Colours and the rest of the appearance. Default as built in, light and dark by the browser's preference. */
  theme?: Theme | undefined
  /** Translations by language: `{ fr: { 'API keys': 'Clés API' } }`. Default English alone. */
  texts?: Readonly<Record<string, Translations>> | undefined
  /** Builds the document around the page, in the host's own frame. Default the built-in document. */
  layout?: ((parts: LayoutParts) => string) | undefined
  /** The URL of a further stylesheet on the page's own origin. Default none. */
  stylesheet?: string | undefined
  /** The pages that may show this page in a frame: `self` for those of the same origin. Default `none`. */
  frameAncestors?: 'none' | 'self' | undefined
  /**
   * Origins that forms may come from beside the request's own, for browsers without `Sec-Fetch-Site` behind a proxy that
   * changes `Host`, or ends TLS without `X-Forwarded-Proto`: `https://app.example.com`. Default none.
   */
  origins?: readonly string[] | undefined
  /** pino, or a logger with the same call form. `false` mutes. Default: warnings and errors to stderr. */
  logger?: Logger | false | undefined
  /** Called with every failure that a person saw only as 500 or 503. An error thrown by the callback is logged and dropped. */
  onError?: ((error: unknown, context: ErrorContext) => void) | undefined
  /** Milliseconds since 1970 in UTC, for relative times and expiries. Default `Date.now`. */
  clock?: Clock | undefined
  /** Makes the ids of requests and of the records that forms create, of the form that `createDeveloperSettings` takes. Default monotonic ULIDs. */
  ids?: Ids | undefined
}

/** The checked options with the defaults filled in. */
export interface ResolvedOptions {
  readonly authorize: SettingsPageOptions['authorize']
  readonly basePath: string | undefined
  readonly api: DescribedApi | undefined
  /** Rules of CSS that set the tokens of the theme. */
  readonly themeCss: string
  readonly logo: string | undefined
  readonly texts: Readonly<Record<string, Translations>>
  readonly layout: ((parts: LayoutParts) => string) | undefined
  readonly stylesheet: string | undefined
  readonly frameAncestors: 'none' | 'self'
  readonly origins: readonly string[]
  readonly logger: Logger
  readonly onError: (error: unknown, context: ErrorContext) => void
  readonly clock: Clock
  readonly ids: Ids
}

const NAMES: Names<SettingsPageOptions> = {
  authorize: true,
  basePath: true,
  api: true,
  theme: true,
  texts: true,
  layout: true,
  stylesheet: true,
  frameAncestors: true,
  origins: true,
  logger: true,
  onError: true,
  clock: true,
  ids: true,
}

/** @throws `TypeError` naming the option that cannot be used */
export function readOptions(options: SettingsPageOptions): ResolvedOptions {
  rejectUnknown(options, NAMES)
  const { clock = Date.now, theme = {}, texts = {}, frameAncestors = 'none' } = options
  require(typeof options.authorize === 'function', 'authorize', 'a function')
  require(frameAncestors === 'none' || frameAncestors === 'self', 'frameAncestors', "'none' or 'self'")
  require(options.api === undefined ||
    typeof options.api?.describe === 'function', 'api', 'the handler of createBusinessApi')
  return {
    authorize: options.authorize,
    basePath: readBasePath(options.basePath),
    api: options.api,
    themeCss: compileTheme(theme),
    logo: readUrl('theme.logo', theme.logo),
    texts,
    layout: readFunction('layout', options.layout),
    stylesheet: readUrl('stylesheet', options.stylesheet),
    frameAncestors,
    origins: readOrigins(options.origins),
    logger: readLogger(options.logger),
    onError: readFunction('onError', options.onError) ?? (() => {}),
    clock,
    ids: readIds(options.ids, clock),
  }
}

function require(isRight: boolean, name: string, requirement: string): void {
  if (!isRight) throw new TypeError(`Cannot use option '${name}' because it must be ${requirement}`)
}

function readBasePath(basePath: string | undefined): string | undefined {
  if (basePath === undefined) return undefined
  const path = String(basePath).replace(/\/+$/, '')
  require(path === '' ||
    /^(\/[A-Za-z0-9._~-]+)+$/.test(path), 'basePath', "a path like '/settings/developer'")
  return path
}

/** A path, or an https URL: nothing that a browser would run. */
function readUrl(name: string, url: string | undefined): string | undefined {
  if (url !== undefined)
    require(/^(\/(?!\/)|https:\/\/)[^\s"'<>\\]*$/.test(url), name, 'a path or an https URL')
  return url
}

function readOrigins(origins: readonly string[] = []): readonly string[] {
  const areOrigins =
    Array.isArray(origins) &&
    origins.every((origin) => URL.canParse(origin) && new URL(origin).origin === origin)
  require(areOrigins, 'origins', "a list of origins like 'https://app.example.com'")
  return [...origins]
}
