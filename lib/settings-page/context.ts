import type { ApiKey } from '../access/api-keys.ts'
import type { RateLimit } from '../access/rate-limit.ts'
import type { Ids } from '../base/ids.ts'
import type { FormFields } from '../http/body.ts'
import type { DeveloperSettings } from '../settings/developer-settings.ts'
import type { WebhookEndpoint } from '../webhooks/endpoints.ts'
import type { ResolvedAccess } from './access.ts'
import type { Format } from './format.ts'
import type { Content } from './html.ts'
import type { Reference } from './reference.ts'
import type { Texts } from './texts.ts'

/** All that a screen needs to answer one request. */
export interface Context {
  readonly settings: DeveloperSettings<string, string>
  readonly access: ResolvedAccess
  readonly t: Texts
  readonly format: Format
  /** Now, in milliseconds since 1970. */
  readonly now: number
  /** The parts of the path that the route names. */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** Empty unless the request is a POST. */
  readonly form: FormFields
  /** Hidden fields for the forms of the answer. */
  readonly stamp: Readonly<Record<string, string>>
  /** The record whose version was read: an edit replaces no other. */
  readonly seen: Seen
  /** True if the record of the sent form has changed since that form was made. */
  readonly isStale: boolean
  readonly newId: Ids
  /** Null without option `api`. */
  readonly reference: (() => Reference) | null
  /** The API's rate limit for keys without their own; null if unknown. */
  readonly keyRateLimit: RateLimit | null
  /** Returns a path of the page with the mount path in front: `link('/keys', { show: 'all' })`. */
  link(path: string, query?: Readonly<Record<string, string | null | undefined>>): string
}

/** The fields of a record that an edit compares; none for a path without such a record. */
export type Seen = Partial<Pick<ApiKey, 'name'> & Pick<WebhookEndpoint, 'version'>>

/** The parts of a context that the frame around a page needs. */
export type Frame = Pick<Context, 'access' | 't' | 'link' | 'reference' | 'settings'>

/** The content of a page. */
export interface ScreenPage {
  /** The heading, and the first part of the document's title. */
  readonly title: string
  readonly content: Content
  /** Default 200. */
  readonly status?: number
  /** The link to the page above: the path and the words. */
  readonly up?: { readonly href: string; readonly text: string }
  /** Acts on the subject of the page, beside the heading. */
  readonly acts?: Content
}

/** Leads on to another path after a change, so that a reload repeats nothing. */
export interface Redirect {
  readonly location: string
}

/** A file to download. */
export interface Download {
  readonly fileName: string
  readonly type: string
  readonly text: string
}

/** The answer of a screen. */
export type Screen = ScreenPage | Redirect | Download

/** Answers the requests of a route. */
export type Show = (context: Context) => Screen | Promise<Screen>

/** An act with the page that has its form. */
export interface Act {
  readonly ask: Show
  readonly act: Show
  /** Returns whether the record already is as the form asks, because the form was sent twice. */
  readonly isDone?: (context: Context) => Promise<boolean>
}
