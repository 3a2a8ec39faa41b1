import type { BusinessApiStore } from '../../business-store.ts'
import { type ReadPage, withSnapshot } from '../../postgres/snapshot.ts'
import { RECORD_KINDS, type RecordKind } from '../../resources/records.ts'
import { type Command, defineCommand } from '../command.ts'
import { organization } from '../common-flags.ts'
import { countOf } from '../confirmation.ts'
import { requireSchema, withStore } from '../database.ts'
import { UsageError } from '../failure.ts'
import { choices, toggle } from '../flags.ts'
import { writeResult } from '../output.ts'
import { formatCount } from '../progress.ts'
import type { Session } from '../session.ts'
import { readSettingsLines, SETTINGS_KINDS, type SettingsKind } from '../settings-export.ts'
import { visibleJson } from '../text.ts'

/** Number of records to read per statement and to print per write. */
const PAGE_SIZE = 500

type Kind = RecordKind | SettingsKind

const KINDS: readonly Kind[] = [...RECORD_KINDS, ...SETTINGS_KINDS]

/** Exports an organization's records. */
export const exportCommand: Command = defineCommand({
  name: 'export',
  summary: "prints an organization's records as NDJSON, one JSON object per line",
  about: `A line is {"kind":"client","record":{…}}: the record as the API shows it, plus what an import needs: a lead's businessId, the minorUnits of amounts, a proposal's signature. Businesses come before clients and leads, invoices before payments. The records are read page by page from one snapshot.
With --all the API keys, the rate limit, the endpoints, the events, the deliveries with their attempts and the audit follow, without any secret; what is added to them meanwhile may be missing. Left out of every export: the texts and digests of API keys, signing secrets, the values of headers, idempotency keys (their replies repeat records), document counters (import continues the numbers) and rate counters.`,
  flags: {
    organization,
    all: toggle('everything about the organization, to hand over its data'),
    kinds: choices(
      'k,…',
      `of these kinds only: ${KINDS.join(', ')}; default: ${RECORD_KINDS[0]} to ${RECORD_KINDS.at(-1)}`,
      KINDS,
    ),
  },
  examples: {
    'into a file': 'business-api-kit export --organization org_42 > org_42.ndjson',
    'everything, for a customer who is leaving':
      'business-api-kit export --organization org_42 --all | gzip > org_42.ndjson.gz',
    'the emails of all clients': `business-api-kit export --organization org_42 --kinds client | jq -r .record.business.email`,
  },
  async run({ organization: owner, all, kinds }, session) {
    if (all && kinds) throw new UsageError('Cannot use --all with --kinds: --all means every kind')
    const wanted = all ? KINDS : (kinds ?? RECORD_KINDS)
    const url = session.databaseUrl()
    await requireSchema(url)
    const tally = createTally(session)
    const records = RECORD_KINDS.filter((kind) => wanted.includes(kind))
    const settings = SETTINGS_KINDS.filter((kind) => wanted.includes(kind))
    const isRead =
      records.length === 0 ||
      (await withSnapshot(url, (readPage) => exportRecords(readPage, owner, records, tally)))
    if (isRead && settings.length > 0) {
      await withStore(session, (store) => exportSettings(store, owner, settings, tally))
    }
    tally.end()
  },
})

type Tally = ReturnType<typeof createTally>

/** Prints lines and counts them by kind. */
function createTally(session: Session) {
  const { stdout } = session.terminal
  // If the records go to the same terminal, they would overwrite the progress line.
  const progress = stdout.isTTY ? null : session.progress('Exporting')
  const counts = new Map<Kind, number>()
  let total = 0
  return {
    begin: (kind: Kind) => void counts.set(kind, 0),
    /** @returns `false` if the reader is gone */
    async print(kind: Kind, lines: readonly string[]): Promise<boolean> {
      const text = lines.map((line) => `${visibleJson(line)}\n`).join('')
      if (text !== '' && !(await writeResult(stdout, text))) return false
      counts.set(kind, (counts.get(kind) ?? 0) + lines.length)
      total += lines.length
      progress?.show(formatCount(total))
      return true
    },
    end(): void {
      progress?.clear()
      const parts = [...counts].map(([kind, count]) => countOf(count, ...wordsOf(kind), false))
      session.note(`Exported ${parts.join(', ')}`)
    },
  }
}

function wordsOf(kind: Kind): readonly [one: string, several: string] {
  const one = kind.replace('api_key', 'API key').replace('_', ' ')
  return [one, `${one.replace(/(?<!e)y$/, 'ie').replace(/s$/, 'se')}s`]
}

/** @returns `false` if the reader is gone */
async function exportRecords(
  readPage: ReadPage,
  owner: string,
  kinds: readonly RecordKind[],
  tally: Tally,
): Promise<boolean> {
  for (const kind of kinds) {
    tally.begin(kind)
    let after: string | null = null
    do {
      const page: Awaited<ReturnType<ReadPage>> = await readPage(owner, kind, after, PAGE_SIZE)
      if (!(await tally.print(kind, page.lines))) return false
      after = page.next
    } while (after !== null)
  }
  return true
}

async function exportSettings(
  store: BusinessApiStore,
  owner: string,
  kinds: readonly SettingsKind[],
  tally: Tally,
): Promise<void> {
  for (const kind of kinds) {
    tally.begin(kind)
    for await (const lines of readSettingsLines(store, owner, kind)) {
      if (!(await tally.print(kind, lines))) return
    }
  }
}
