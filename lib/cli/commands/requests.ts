import { setTimeout as sleep } from 'node:timers/promises'
import { type LoggedRequest, REQUEST_CLASSES } from '../../access/request-log.ts'
import { isStoreUnavailable } from '../../base/errors.ts'
import type { Page } from '../../base/page.ts'
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
  summary: "lists an organization's API requests, newest first",
  about: 'Covers the last seven days, as far as the option requestLog of createBusinessApi logs them.',
  flags: {
    ...FILTER_FLAGS,
    since: parsed('WHEN', 'arrived since: 24h ago, 2026-01-31, or 2026-01-31T09:00:00Z', parsePast),
    until: parsed('WHEN', 'arrived before', parsePast),
    ...PAGE_FLAGS,
    ...TABLE_FLAGS,
  },
  examples: {
    'the newest requests': 'business-api-kit requests list --organization org_42',
    'what was rejected today':
      'business-api-kit requests list --organization org_42 --status 4xx --since 24h',
  },
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
  examples: {
    'what was it?': `business-api-kit requests show ${EXAMPLE_ID} --organization org_42`,
  },
  async run({ organization: owner }, session) {
    const request = await withSettings(session, ({ requests: log }) => log.get(owner, session.argument))
    const details = [
      ...COLUMNS.map(({ title, value }) => [title, value(request)] as const),
      ['KEY ID', request.keyId] as const,
    ]
    await session.print(request, () => formatDetails(details, session.width()))
  },
})

/** Poll interval in milliseconds. */
const POLL_MS = 500
/** Maximum delay until a request is logged, in milliseconds. Responses take up to 5 s, and the batch another second. */
const LATE_MS = 10_000

const tail: Command = defineCommand({
  name: 'tail',
  summary: "prints an organization's API requests as they are logged, until a signal",
  flags: FILTER_FLAGS,
  examples: {
    'errors while developing': 'business-api-kit requests tail --organization org_42 --status 4xx',
  },
  async run({ organization: owner, key, status }, session) {
    await withSettings(session, async ({ requests: log }) => {
      const readNew = await createReader((since, before) => log.list(owner, { since, before, limit: 200 }))
      session.note('Waiting for requests. Ctrl-C or SIGTERM stops')
      await watchUntilStopped(session, async (watch) => {
        while (!watch.signal.aborted) {
          await sleep(POLL_MS, undefined, { signal: watch.signal }).catch(() => {})
          try {
            for (const request of await readNew())
              if ([undefined, request.keyId].includes(key) && [undefined, classOf(request)].includes(status))
                await watch.print(request, () => COLUMNS.map(({ value }) => value(request)).join('  '))
          } catch (error) {
            if (!isStoreUnavailable(error)) throw error
            watch.onUnavailable(error)
          }
        }
      })
    })
  },
})

/**
 * Returns a function that returns newly logged requests, oldest first. Only compares times from the log because
 * different machines' clocks may disagree.
 */
async function createReader(
  list: (since: string | undefined, before: string | null) => Promise<Page<LoggedRequest>>,
): Promise<() => Promise<readonly LoggedRequest[]>> {
  const [last] = (await list(undefined, null)).data
  let since = last?.at ?? new Date(0).toISOString()
  const known = new Map(last ? [[last.id, last.at]] : [])
  return async () => {
    const found: LoggedRequest[] = []
    for (let before: string | null = null, isLast = false; !isLast; isLast = before === null) {
      const page = await list(since, before)
      found.push(...page.data.filter(({ id }) => !known.has(id)))
      before = page.next
    }
    for (const { id, at } of found) known.set(id, at)
    const late = new Date(Date.parse(found[0]?.at ?? since) - LATE_MS).toISOString()
    if (late > since) since = late
    for (const [id, at] of known) if (at < since) known.delete(id)
    return found.toReversed()
  }
}

function classOf({ status }: LoggedRequest): string {
  return `${Math.floor(status / 100)}xx`
}

/** The request log commands. */
export const requests: Group = {
  name: 'requests',
  summary: 'the log of the API requests of an organization',
  commands: [listRequests, show, tail],
}
