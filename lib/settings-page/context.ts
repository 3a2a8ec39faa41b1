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

/** Everything a screen needs to handle a request. */
export interface Context {
  readonly settings: DeveloperSettings<string, string>
  readonly access: ResolvedAccess
  readonly t: Texts
  readonly format: Format
  /** The current time, in milliseconds since 1970. */
  readonly now: number
  /** The path parameters of the route. */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** URL path and query of the page with the link to this one; empty if unknown. */
  readonly referrer: string
  /** Empty unless the request is a POST. */
  readonly form: FormFields
  /** Hidden fields that every form in the response must include. */
  readonly stamp: Readonly<Record<string, string>>
  /** Fields for an update's `replaces`, which prevents it from overwriting a later change. */
  readonly seen: Seen
  /** `true` if the record has changed since the submitted form was rendered. */
  readonly isStale: boolean
  readonly newId: Ids
  /** `null` if the `api` option is not set. */
  readonly reference: (() => Reference) | null
  /** The API's default rate limit for keys; `null` if unknown. */
  readonly keyRateLimit: RateLimit | null
  /** Returns a URL path within the page, including the mount path: `link('/keys', { show: 'all' })`. */
  link(path: string, query?: Readonly<Record<string, string | null | undefined>>): string
}

/** Fields of a record that an update compares. Empty if the path has no record. */
export type Seen = Partial<Pick<ApiKey, 'name'> & Pick<WebhookEndpoint, 'version'>>

/** The parts of the context used by the layout. */
export type Frame = Pick<Context, 'access' | 't' | 'link' | 'reference' | 'settings'>

/** A rendered page without the layout. */
export interface ScreenPage {
  /** The heading, which is also the first part of the document title. */
  readonly title: string
  /** The record's status, shown beside the heading. */
  readonly badge?: Content
  readonly content: Content
  /** Defaults to 200. */
  readonly status?: number
  /** The link to the parent page. */
  readonly up?: { readonly href: string; readonly text: string }
  /** Buttons beside the heading. */
  readonly acts?: Content
}

/** A redirect after a change, so reloading the page doesn't repeat it. */
export interface Redirect {
  readonly location: string
}

/** A file download. */
export interface Download {
  readonly fileName: string
  readonly type: string
  readonly text: string
}

/** The result of a screen. */
export type Screen = ScreenPage | Redirect | Download

/** Handles the requests of a route. */
export type Show = (context: Context) => Screen | Promise<Screen>

/** An action and the page with its form. */
export interface Act {
  readonly ask: Show
  readonly act: Show
  /** Returns whether the record already has the submitted values because the form was submitted twice. */
  readonly isDone?: (context: Context) => Promise<boolean>
}
