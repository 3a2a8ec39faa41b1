import { API_KEY_PREFIX, DEFAULT_KEY_PREFIX, type ImportedKeys, readImportedKeys } from './access/api-keys.ts'
import { type OwnScope, readScopes, type ScopeOwner } from './access/scopes.ts'
import {
  flag,
  isMatching,
  type OptionReaders,
  printValue,
  readEach,
  readHeaderPrefix,
  readMatching,
  rejectUnknown,
} from './base/options.ts'
import { type EventDefinition, type EventOwner, readEvents } from './resources/own-events.ts'
import { type Route, readRoutes } from './resources/own-routes.ts'

/** How the service presents itself to callers and subscribers. The API, webhooks, settings and pages all use this. */
export interface ServiceOptions<
  Events extends EventOwner['events'] = readonly EventDefinition[],
  Scopes extends ScopeOwner['scopes'] = readonly OwnScope[],
> {
  /** The title for the document and settings pages, 1 to 100 characters. The document defaults to `Business API`. */
  readonly name?: string | undefined
  /**
   * The API's URL for callers, including the base path, for example `https://app.example.com`. Used as the server in
   * the OpenAPI document and the start of every next-page `Link` header. We never derive the URL from a request. By
   * default, the document's server is the basePath and links are relative.
   */
  readonly baseUrl?: string | undefined
  /**
   * The prefix for new API keys, for example `bapi` for `bapi_live_…`. Must be a lowercase letter followed by up to 15
   * lowercase letters or digits. Defaults to `bapi`.
   */
  readonly keyPrefix?: string | undefined
  /** Keys from your previous API, for `apiKeys.import`. By default, keys in other formats are rejected with a 401. */
  readonly importedKeys?: ImportedKeys | undefined
  /**
   * The prefix for webhook headers, for example `X-SERVICE` for `X-SERVICE-Event-Id`. An endpoint's custom headers
   * can't start with this prefix. Defaults to `X-SERVICE`.
   */
  readonly headerPrefix?: string | undefined
  /** If `true`, sends Standard Webhooks headers to all endpoints whose secret allows it. Defaults to `false`. */
  readonly standardWebhooks?: boolean | undefined
  /** Your own event types, in addition to the catalogue. Up to 200. See `defineEvent`. None by default. */
  readonly events?: Events | undefined
  /** Your own scopes, for example `['bookings:read', 'bookings:write']`. None by default. */
  readonly scopes?: Scopes | undefined
  /** Your own routes, in addition to the library's operations. See `defineRoute`. None by default. */
  readonly routes?: readonly Route[] | undefined
}

/** The validated {@link ServiceOptions} with defaults filled in. */
export interface Service<
  Events extends EventOwner['events'] = readonly EventDefinition[],
  Scopes extends ScopeOwner['scopes'] = readonly OwnScope[],
> extends ServiceOptions<Events, Scopes> {
  readonly keyPrefix: string
  readonly headerPrefix: string
  readonly standardWebhooks: boolean
  readonly events: Events
  readonly scopes: Scopes
  readonly routes: readonly Route[]
}

const READERS = {
  name: (given) => (given === undefined ? undefined : readMatching('name', given, '', NAME)),
  baseUrl: readBaseUrl,
  keyPrefix: (given, name) => readMatching(name, given, DEFAULT_KEY_PREFIX, API_KEY_PREFIX),
  importedKeys: readImportedKeys,
  headerPrefix: readHeaderPrefix,
  standardWebhooks: flag(),
  events: readEvents,
  scopes: readScopes,
  routes: (given) => given,
} satisfies OptionReaders<ServiceOptions>

/**
 * Defines a service. The store passes it on to the API and its document, the delivery loop, the settings and the pages.
 * The command line reads it from the `--service` module.
 *
 * @throws `TypeError` naming the invalid option
 *
 * @example
 * ```ts
 * export const service = defineService({ name: 'Acme API', keyPrefix: 'acme', headerPrefix: 'X-Acme' })
 * const store = createPostgresStore(process.env.DATABASE_URL ?? '', { service })
 * ```
 */
export function defineService<
  const Events extends EventOwner['events'] = readonly [],
  const Scopes extends ScopeOwner['scopes'] = readonly [],
>(options: ServiceOptions<Events, Scopes> = {}): Service<Events, Scopes> {
  const read = readEach(options, READERS)
  return Object.freeze({ ...read, routes: readRoutes(read.routes, read) }) as Service<Events, Scopes>
}

/** Reads the `service` option. @throws `TypeError` naming the invalid option */
export function readService(given: ServiceOptions = {}): Service {
  rejectUnknown(given, READERS, 'service.')
  return defineService(given)
}

/**
 * Returns a store's service. The store may be the host's own implementation.
 *
 * @throws `TypeError` if it isn't a store, or if it has no service or an invalid option
 */
export function serviceOf(store: { readonly service: ServiceOptions }): Service {
  if (!store) throw new TypeError(`Cannot use the store because it is ${printValue(store)}`)
  if (store.service === undefined)
    throw new TypeError("Cannot use the store because it has no 'service': pass defineService({ … })")
  return readService(store.service)
}

/** Matches a name with visible characters and spaces. */
const NAME = /^\P{C}{1,100}$/u

function readBaseUrl(baseUrl: string | undefined): string | undefined {
  if (baseUrl === undefined) return undefined
  const url = isMatching(baseUrl, /^https?:\/\//i) && URL.canParse(baseUrl) ? new URL(baseUrl) : undefined
  if (
    url === undefined ||
    url.username !== '' ||
    url.password !== '' ||
    url.search !== '' ||
    url.hash !== ''
  ) {
    // The message doesn't include the value, because a URL may contain a password.
    throw new TypeError("Option 'baseUrl' must be an http(s) URL without credentials, query or fragment")
  }
  // Use the parsed URL because it's sent in headers. For example, https://日本.example becomes
  // https://xn--wgv71a.example.
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}
