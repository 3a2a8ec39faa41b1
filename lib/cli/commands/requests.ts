import { setTimeout as sleep } from 'node:timers/promises'
import { type LoggedRequest, REQUEST_CLASSES } from '../../access/request-log.ts'
import { isStoreUnavailable } from '../../base/errors.ts'
import { type Command, defineCommand, type Group } from '../command.ts'
import { EXAMPLE_ULID, organization, PAGE_FLAGS, TABLE_FLAGS } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { formatDuration, formatMoment, parsePast } from '../durations.ts'
import { choice, parsed, text } from '../flags.ts'
import { type Column, formatDetails, formatTable } from '../table.ts'
import { watchUntilStopped } from '../watching.ts'

const EXAMPLE_ID = `req_${EXAMPLE_ULID}`
const FILTER_FLAGS = {
  organization,
  key: text('ID', 'with this API key only'),
  status: choice('CLASS', 'with such an answer only', REQUEST_CLASSES),
}

const listRequests: Command = defineCommand({
  name: 'list',
  summary: 'shows the API requests of an organization, newest first',
  about: 'Of the last seven days, as far as option requestLog of createBusinessApi keeps them.',
  flags: {
    ...FILTER_FLAGS,
    since: parsed('WHEN', 'arrived since: 24h ago, 2026-01-31, or 2026-01-31T09:00:00Z', parsePast),
    until: parsed('WHEN', 'arrived before', parsePast),
    ...PAGE_FLAGS,
    ...TABLE_FLAGS,
  },
  examples: [
    { purpose: 'the newest requests', line: 'business-api-kit requests list --organization org_42' },
    {
      purpose: 'what was rejected today',
      line: 'business-api-kit requests list --organization org_42 --status 4xx --since 24h',
    },
  ],
  async run({ organization: owner, key: keyId, wide, ...page }, session) {
    const listed = await withSettings(session, ({ requests: log }) => log.list(owner, { keyId, ...page }))
    await session.print(listed, () => formatTable(COLUMNS, listed.data, session.width(wide)))
    if (listed.next !== null) session.note(`More: --before ${listed.next}`)
  },
})

const COLUMNS: readonly Column<LoggedRequest>[] = [
  { title: 'AT', value: ({ at }) => formatMoment(at) },
  { title: 'STATUS', value: ({ status, isReplay }) => (isReplay ? `${status}, replay` : String(status)) },
  { title: 'REQUEST', value: ({ method, path }) => `${method} ${path}` },
  { title: 'TIME', value: ({ durationMs }) => formatDuration(durationMs) },
  { title: 'KEY', value: ({ keyName }) => keyName },
  { title: 'ID', value: ({ id }) => id },
  { title: 'ERROR', value: ({ error }) => error ?? '' },
]

const show: Command = defineCommand({
  name: 'show',
  summary: 'shows an API request by the id in its response',
  argument: 'ID',
  flags: { organization },
  examples: [
    { purpose: 'what was it?', line: `business-api-kit requests show ${EXAMPLE_ID} --organization org_42` },
  ],
  async run({ organization: owner }, session) {
    const request = await withSettings(session, ({ requests: log }) => log.get(owner, session.argument))
    const details = [
      ...COLUMNS.map(({ title, value }) => [title, value(request)] as const),
      ['KEY ID', request.keyId] as const,
    ]
    await session.print(request, () => formatDetails(details, session.width()))
  },
})

/** Interval between two polls, and age of the requests that a poll reads: the API writes them a second late. In ms. */
const POLL_MS = 500
const WINDOW_MS = 30_000

const tail: Command = defineCommand({
  name: 'tail',
  summary: 'shows the API requests of an organization as they are logged, until a signal',
  flags: FILTER_FLAGS,
  examples: [
    {
      purpose: 'errors while developing',
      line: 'business-api-kit requests tail --organization org_42 --status 4xx',
    },
  ],
  async run({ organization: owner, key: keyId, status }, session) {
    const begin = Date.now()
    let shown = new Set<string>()
    await withSettings(session, ({ requests: log }) =>
      watchUntilStopped(session, async (watch) => {
        while (!watch.signal.aborted) {
          const since = new Date(Math.max(begin, Date.now() - WINDOW_MS))
          const page = await log.list(owner, { keyId, status, since, limit: 200 }).catch((error) => {
            if (!isStoreUnavailable(error)) throw error
            watch.onUnavailable(error)
          })
          for (const request of page?.data.toReversed() ?? []) {
            if (shown.has(request.id)) continue
            await watch.print(request, () => COLUMNS.map(({ value }) => value(request)).join('  '))
          }
          if (page) shown = new Set(page.data.map(({ id }) => id))
          await sleep(POLL_MS, undefined, { signal: watch.signal }).catch(() => {})
        }
      }),
    )
  },
})

/** The API requests of organizations. */
export const requests: Group = {
  name: 'requests',
  summary: 'the log of the API requests of an organization',
  commands: [listRequests, show, tail],
}
