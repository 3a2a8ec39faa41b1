import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import {
  createDeveloperSettings,
  type DeveloperSettings,
  type DeveloperSettingsOptions,
} from '../../lib/settings.ts'
import {
  type Access,
  createSettingsPage,
  type SettingsPage,
  type SettingsPageOptions,
} from '../../lib/settings-page.ts'
import { resolveTo } from '../sender/_setup.ts'

// A page on a memory store, called in the fetch form.

export const BASE = '/settings/developer'
const ORIGIN = 'https://app.example'

export interface Under {
  readonly store: BusinessApiStore
  readonly settings: DeveloperSettings
  readonly page: SettingsPage
  /** The access of the next requests. */
  access: Access | { redirect: string } | null
  readonly errors: unknown[]
  get(path: string, headers?: Record<string, string>): Promise<Answer>
  post(path: string, fields: Fields, headers?: Record<string, string>): Promise<Answer>
  /** Opens the form of a path, and posts the form with the fields of the page and the given fields. */
  submit(path: string, fields: Fields): Promise<Answer>
}

export type Fields = Readonly<Record<string, string | readonly string[]>>

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The text between the tags, with white space collapsed. */
  readonly words: string
  readonly location: string | null
}

export const ORGANIZATION = 'org_page'
export const EVERYTHING: Access = {
  organizationId: ORGANIZATION,
  actor: 'ada@example.com',
  can: 'everything',
}

export function setUp({
  store = createMemoryStore(),
  settings: settingsOptions = {},
  wrap = (settings) => settings,
  ...options
}: Partial<SettingsPageOptions> & {
  store?: BusinessApiStore
  settings?: DeveloperSettingsOptions
  wrap?: (settings: DeveloperSettings) => DeveloperSettings
} = {}): Under {
  const settings = createDeveloperSettings(store, {
    secretKeys: [randomBytes(32)],
    localDevelopment: true,
    lookup: resolveTo('127.0.0.1'),
    ...settingsOptions,
  })
  const errors: unknown[] = []
  const page = createSettingsPage(wrap(settings), {
    basePath: BASE,
    authorize: () => under.access,
    logger: false,
    onError: (error) => errors.push(error),
    ...options,
  })
  const under: Under = {
    store,
    settings,
    page,
    access: EVERYTHING,
    errors,
    get: (path, headers = {}) => read(page.fetch(new Request(ORIGIN + BASE + path, { headers }))),
    post: (path, fields, headers = { 'Sec-Fetch-Site': 'same-origin' }) =>
      read(
        page.fetch(
          new Request(ORIGIN + BASE + path, {
            method: 'POST',
            headers,
            body: encode(fields),
            redirect: 'manual',
          }),
        ),
      ),
    async submit(path, fields) {
      const form = await under.get(path)
      assert.equal(form.status, 200, form.text)
      return under.post(path, { ...hiddenOf(form), ...fields })
    },
  }
  return under
}

function encode(fields: Fields): URLSearchParams {
  return new URLSearchParams(
    Object.entries(fields).flatMap(([name, value]) =>
      [value].flat().map((each) => [name, each] as [string, string]),
    ),
  )
}

async function read(answer: Promise<Response>): Promise<Answer> {
  const { status, headers, ...rest } = await answer.then(async (response) => ({
    status: response.status,
    headers: response.headers,
    text: await response.text(),
  }))
  return { status, headers, ...rest, words: wordsOf(rest.text), location: headers.get('location') }
}

export function wordsOf(text: string): string {
  return decode(text.replace(/<head>.*<\/head>/s, '').replace(/<[^>]*>/g, ' ')).replace(/\s+/g, ' ')
}

export function decode(text: string): string {
  return text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')
}

/** The hidden fields of a page's first form. */
export function hiddenOf({ text }: Answer): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)].map(
      ([, name = '', value = '']) => [name, decode(value)],
    ),
  )
}
