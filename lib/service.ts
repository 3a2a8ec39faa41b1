import { API_KEY_PREFIX, DEFAULT_KEY_PREFIX, type ImportedKeys, readImportedKeys } from './access/api-keys.ts'
import { type OwnScope, readScopes, type ScopeOwner } from './access/scopes.ts'
import { type Names, readFlag, readHeaderPrefix, readMatching, rejectUnknown } from './base/options.ts'
import { type EventDefinition, type EventOwner, readEvents } from './resources/own-events.ts'
import { type Route, readRoutes } from './resources/own-routes.ts'

/** The service's names as callers and subscribers know them, shared by the API, the webhooks, the settings and the pages. */
export interface ServiceOptions<
  Events extends EventOwner['events'] = readonly EventDefinition[],
  Scopes extends ScopeOwner['scopes'] = readonly OwnScope[],
> {
  /** The title of the OpenAPI document, and the end of the settings pages' titles: 1 to 100 characters. Default `Business API` in the document. */
  readonly name?: string | undefined
  /**
   * The URL of the API as callers know it, the base path included: `https://app.example.com`. The server in the OpenAPI document, and the
   * beginning of every `Link` to a next page. Never taken from a request. Default: the document's server is the basePath, and links are
   * relative.
   */
  readonly baseUrl?: string | undefined
  /** The prefix of new API keys: `bapi` in `bapi_live_…`. A lower-case letter, then up to 15 letters or digits. Default `bapi`. */
  readonly keyPrefix?: string | undefined
  /** The keys of the host's earlier API, which `apiKeys.import` takes over. Default: none, and every key of another form gets 401. */
  readonly importedKeys?: ImportedKeys | undefined
  /** The prefix of the webhook headers: `X-SERVICE` in `X-SERVICE-Event-Id`. An endpoint's own headers may not begin with it. Default `X-SERVICE`. */
  readonly headerPrefix?: string | undefined
  /** Also sends the headers of Standard Webhooks to every endpoint whose signing secret that scheme can decode. Default `false`. */
  readonly standardWebhooks?: boolean | undefined
  /** The host's own event types beside the catalogue, at most 200: see `defineEvent`. Default: none. */
  readonly events?: Events | undefined
  /** Scopes beside the library's: `['bookings:read', 'bookings:write']`. Default: none. */
  readonly scopes?: Scopes | undefined
  /** The host's own routes beside the library's operations: see `defineRoute`. Default: none. */
  readonly routes?: readonly Route[] | undefined
}

/** The checked {@link ServiceOptions} with the defaults filled in. */
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

const NAMES: Names<ServiceOptions> = {
  name: true,
  baseUrl: true,
  keyPrefix: true,
  importedKeys: true,
  headerPrefix: true,
  standardWebhooks: true,
  events: true,
  scopes: true,
  routes: true,
}

/**
 * Defines the names of a service once. The store carries them to the API and its document, the delivery loop, the settings and the
 * pages. The command line reads them from the module of `--service`.
 *
 * @throws `TypeError` naming the invalid option
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
  rejectUnknown(options, NAMES)
  const scopes = readScopes(options.scopes)
  return Object.freeze({
    name: options.name === undefined ? undefined : readMatching('name', options.name, '', NAME),
    baseUrl: readBaseUrl(options.baseUrl),
    keyPrefix: readMatching('keyPrefix', options.keyPrefix, DEFAULT_KEY_PREFIX, API_KEY_PREFIX),
    importedKeys: readImportedKeys(options.importedKeys),
    headerPrefix: readHeaderPrefix(options.headerPrefix),
    standardWebhooks: readFlag('standardWebhooks', options.standardWebhooks),
    events: readEvents(options.events),
    scopes,
    routes: readRoutes(options.routes, { scopes }),
  })
}

/**
 * Reads the service of a store, which may be a store of the host's own.
 *
 * @throws `TypeError` for a store without one, and naming an option that cannot be used
 */
export function serviceOf({ service }: { readonly service: ServiceOptions }): Service {
  if (service === undefined)
    throw new TypeError("Cannot use the store because it has no 'service': pass defineService({ … })")
  return defineService(service)
}

/** A name: visible characters and spaces. */
const NAME = /^\P{C}{1,100}$/u

function readBaseUrl(baseUrl: string | undefined): string | undefined {
  if (baseUrl === undefined) return undefined
  const url = /^https?:\/\//i.test(baseUrl) && URL.canParse(baseUrl) ? new URL(baseUrl) : undefined
  if (
    url === undefined ||
    url.username !== '' ||
    url.password !== '' ||
    url.search !== '' ||
    url.hash !== ''
  ) {
    // Without the value, because a URL may hold a password.
    throw new TypeError(
      "Cannot use option 'baseUrl' because it must be an http(s) URL without credentials, query or fragment",
    )
  }
  // As parsed, because it is used in headers: https://日本.example is https://xn--wgv71a.example.
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}
