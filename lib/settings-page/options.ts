import type { RateLimit } from '../access/rate-limit.ts'
import { type Clock, type Ids, readIds } from '../base/ids.ts'
import type { Logger } from '../base/log.ts'
import {
  type OptionReaders,
  type ReadBy,
  readEach,
  readFunction,
  readLogger,
  readPath,
} from '../base/options.ts'
import type { ErrorContext } from '../http/report.ts'
import type { Access } from './access.ts'
import { readTranslations, type Translations } from './texts.ts'
import { compileTheme, type Theme } from './theme.ts'

/** The request passed to `authorize`. */
export interface SettingsPageRequest<Raw = unknown> {
  readonly method: string
  /** The path and query string as sent. */
  readonly url: string
  /** Your `IncomingMessage` or `Request`, where middleware stores sessions. Set its type by `SettingsPageRequest<Request>`. */
  readonly raw: Raw
  /**
   * Returns a header's value; `undefined` if absent.
   *
   * @param name the name in lower case
   */
  header(name: string): string | undefined
}

/** The parts of a page for your own document. All of them are escaped markup. */
export interface LayoutParts {
  /** The content of `<title>`. */
  readonly title: string
  /** Tags for `<head>`: title, stylesheet and script. */
  readonly head: string
  /** Content for `<body>`: a single element. */
  readonly body: string
  /** The value of the `lang` attribute. */
  readonly lang: string
  /** The nonce that `authorize` returned; empty if there is none. */
  readonly nonce: string
  /** The response's `Content-Security-Policy`. Your own tags must comply with it or have the nonce. */
  readonly csp: string
}

/** The properties of an API handler that the page uses. */
export interface DescribedApi {
  describe(): object
  readonly keyRateLimit?: RateLimit | null
}

/** Options of `createSettingsPage`, which are read once. */
export interface SettingsPageOptions {
  /**
   * Returns the person behind a request, based on your own session. Called for every request except the two assets, before the body is
   * read. The result is never cached.
   *
   * @returns the access; `redirect`, the path or URL of your sign-in page; or `null` if there is no session
   */
  authorize(
    request: SettingsPageRequest,
  ): Access | { readonly redirect: string } | null | Promise<Access | { readonly redirect: string } | null>
  /** The mount path, for example `/settings/developer`. Express sets it by itself. Defaults to the root. */
  basePath?: string | undefined
  /** The handler of `createBusinessApi`, for the reference, samples and default rate limit. Defaults to none. */
  api?: DescribedApi | undefined
  /** Colours, fonts and logo. Defaults to the built-in theme, light or dark as the browser prefers. */
  theme?: Theme | undefined
  /** Translations by language: `{ fr: { 'API keys': 'Clés API' } }`. Defaults to English only. */
  texts?: Readonly<Record<string, Translations>> | undefined
  /** Renders the document around the page, for example with your navigation. Defaults to a built-in document. */
  layout?: ((parts: LayoutParts) => string) | undefined
  /** The URL of an additional stylesheet on the same origin. Defaults to none. */
  stylesheet?: string | undefined
  /** Pages that may embed this page in a frame: `self` for the same origin, or `none`. Defaults to `none`. */
  frameAncestors?: 'none' | 'self' | undefined
  /**
   * Additional origins that may submit forms, for example `https://app.example.com`. Only needed for browsers without `Sec-Fetch-Site`
   * if a proxy changes `Host` or terminates TLS without setting `X-Forwarded-Proto`. Defaults to none.
   */
  origins?: readonly string[] | undefined
  /** pino or a compatible logger; `false` disables logging. By default, warnings and errors go to stderr. */
  logger?: Logger | false | undefined
  /** Called with each error that was shown only as 500 or 503. Errors thrown by the callback are logged and ignored. */
  onError?: ((error: unknown, context: ErrorContext) => void) | undefined
  /** Returns milliseconds since 1970, for relative times and expiry. Defaults to `Date.now`. */
  clock?: Clock | undefined
  /** Creates IDs of requests and records, like the option of `createDeveloperSettings`. Defaults to ULIDs. */
  ids?: Ids | undefined
}

const READERS = {
  authorize(given): SettingsPageOptions['authorize'] {
    require(typeof given === 'function', 'authorize', 'a function')
    return given
  },
  basePath: (given) => readPath('basePath', given, '/settings/developer'),
  api(given) {
    require(given === undefined ||
      typeof given?.describe === 'function', 'api', 'the handler of createBusinessApi')
    return given
  },
  theme: (given: Theme = {}) => ({ themeCss: compileTheme(given), logo: readUrl(given.logo, 'theme.logo') }),
  texts: (given) => readTranslations(given),
  layout: (given, name) => readFunction(name, given),
  stylesheet: readUrl,
  frameAncestors(given = 'none'): 'none' | 'self' {
    require(given === 'none' || given === 'self', 'frameAncestors', "'none' or 'self'")
    return given
  },
  origins: readOrigins,
  logger: (given) => readLogger(given),
  onError: (given, name): NonNullable<SettingsPageOptions['onError']> =>
    readFunction(name, given) ?? (() => {}),
  clock: (given = Date.now) => given,
  ids: (given) => given,
} satisfies OptionReaders<SettingsPageOptions>

/** The validated options with defaults applied: the theme as CSS rules, beside its logo. */
export interface ResolvedOptions
  extends Omit<ReadBy<typeof READERS>, 'theme' | 'ids'>,
    ReturnType<typeof READERS.theme> {
  readonly ids: Ids
}

/** Validates the options and applies defaults. @throws `TypeError` naming the invalid option */
export function readOptions(options: SettingsPageOptions): ResolvedOptions {
  const { theme, ids, ...read } = readEach(options, READERS)
  return { ...read, ...theme, ids: readIds(ids, read.clock) }
}

function require(isRight: boolean, name: string, requirement: string): void {
  if (!isRight) throw new TypeError(`Option '${name}' must be ${requirement}`)
}

/** A path or https URL, so the browser never runs the value as code. */
function readUrl(url: string | undefined, name: string): string | undefined {
  if (url === undefined) return undefined
  const isUrl = typeof url === 'string' && /^(\/(?!\/)|https:\/\/)[^\s"'<>\\]*$/.test(url)
  require(isUrl, name, 'a path or an https URL')
  return url
}

function readOrigins(origins: readonly string[] = []): readonly string[] {
  const areOrigins =
    Array.isArray(origins) &&
    origins.every(
      (given) => typeof given === 'string' && URL.canParse(given) && new URL(given).origin === given,
    )
  require(areOrigins, 'origins', "a list of origins like 'https://app.example.com'")
  return [...origins]
}
