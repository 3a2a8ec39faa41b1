import { RECORD_KINDS, type RecordKind } from '../../postgres/record-reader.ts'
import { type ReadPage, withSnapshot } from '../../postgres/snapshot.ts'
import { type Command, defineCommand } from '../command.ts'
import { organization } from '../common-flags.ts'
import { countOf } from '../confirmation.ts'
import { requireSchema } from '../database.ts'
import { choices } from '../flags.ts'
import { writeResult } from '../output.ts'
import { formatCount } from '../progress.ts'
import type { Session } from '../session.ts'

/** The number of records that a statement reads and a write prints. */
const PAGE_SIZE = 500

/** Prints the records of an organization. */
export const exportCommand: Command = defineCommand({
  name: 'export',
  summary: 'prints the records of an organization as NDJSON, one JSON object on each line',
  about: `A line is {"kind":"client","record":{…}}: the record as the API shows it, and beside it what the API does not show: the businessId of a lead, the minorUnits of amounts, the signature of a proposal. Businesses come before clients and leads, invoices before payments. The export is read page by page in one transaction: it shows the records of one moment, whatever is written meanwhile.`,
  flags: {
    organization,
    kinds: choices('k,…', `of these kinds only: ${RECORD_KINDS.join(', ')}; default: all`, RECORD_KINDS),
  },
  examples: [
    { purpose: 'into a file', line: 'business-api-kit export --organization org_42 > org_42.ndjson' },
    {
      purpose: 'the emails of all clients',
      line: `business-api-kit export --organization org_42 --kinds client | jq -r .record.business.email`,
    },
  ],
  async run({ organization: owner, kinds = RECORD_KINDS }, session) {
    const url = session.databaseUrl()
    await requireSchema(url)
    const wanted = RECORD_KINDS.filter((kind) => kinds.includes(kind))
    const counts = await withSnapshot(url, (readPage) => exportAll(readPage, owner, wanted, session))
    const parts = Object.entries(counts).map(([kind, count]) => countOf(count, kind, pluralOf(kind), false))
    session.note(`Exported ${parts.join(', ')}`)
  },
})

function pluralOf(kind: string): string {
  return kind === 'business' ? 'businesses' : `${kind}s`
}

async function exportAll(
  readPage: ReadPage,
  owner: string,
  kinds: readonly RecordKind[],
  session: Session,
): Promise<Readonly<Record<string, number>>> {
  const { stdout, stderr } = session.terminal
  // A bar beside the records on the same terminal would be drawn over them.
  const progress = stdout.isTTY ? null : session.progress('Exporting')
  const counts: Record<string, number> = {}
  let total = 0
  for (const kind of kinds) {
    counts[kind] = 0
    let after: string | null = null
    do {
      const page: Awaited<ReturnType<ReadPage>> = await readPage(owner, kind, after, PAGE_SIZE)
      const text = page.lines.map((line) => `${line}\n`).join('')
      if (text !== '' && !(await writeResult(stdout, text))) return counts
      counts[kind] += page.lines.length
      total += page.lines.length
      if (progress?.isShown) stderr.write(`\r\x1b[KExporting … ${formatCount(total)}`)
      after = page.next
    } while (after !== null)
  }
  progress?.clear()
  return counts
}
