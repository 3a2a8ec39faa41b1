import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { BusinessApiError, STORE_UNAVAILABLE } from '../../base/errors.ts'
import type { RecordStore } from '../../business-store.ts'
import { type GivenRecord, readGivenRecord } from '../../platform/import-reading.ts'
import { IMPORT_MAX, IMPORTED_ROWS_MAX, type ImportReport } from '../../platform/import-records.ts'
import { importRecords } from '../../platform/imports.ts'
import { rehearse } from '../../postgres/rehearsal.ts'
import { minorUnits } from '../../resources/currencies.ts'
import { type Command, defineCommand } from '../command.ts'
import { organization } from '../common-flags.ts'
import { withStore } from '../database.ts'
import { codeOf, Failure } from '../failure.ts'
import { toggle } from '../flags.ts'
import { formatCount } from '../progress.ts'
import type { Session } from '../session.ts'
import { SETTINGS_KINDS, type SettingsKind } from '../settings-export.ts'

/** Maximum number of lines to list in a message. */
const SHOWN_MAX = 10
/** Maximum line length in bytes. Even the largest event in a full export is shorter. */
const LINE_MAX = 8_388_608

/** Imports records from an NDJSON file. */
export const importCommand: Command = defineCommand({
  name: 'import',
  summary: 'imports existing records into an organization, from NDJSON, without events',
  about: `A line is {"kind":"client","record":{…}}, as export prints it; FILE is - for stdin. Businesses come before their clients and leads, invoices before their payments. The lines are written in batches of ${IMPORT_MAX}, each all or nothing. An equal record is skipped, so an interrupted import can be run again; a record that differs from the stored one is reported and not overwritten. Other lines of export --all are counted and skipped: API keys and endpoints do not work without their secrets, and events have been sent.
--check writes in a transaction that is rolled back at the end: the answer is exact, and meanwhile the numbers of new invoices and proposals of the organization wait.`,
  argument: 'FILE',
  flags: { organization, check: toggle('check every line against the database, and write nothing') },
  examples: {
    'first look': 'business-api-kit import clients.ndjson --organization org_42 --check',
    'from one organization into another':
      'business-api-kit export --organization org_42 | business-api-kit import - --organization org_43',
  },
  async run({ organization: owner, check }, session) {
    const total = await withStore(session, (store) => {
      const work = (records: RecordStore): Promise<Total> => importAll(records, owner, session)
      return check ? rehearse(session.databaseUrl(), store, work) : work(store)
    })
    const { lines, added, known, different } = total
    const leftOut = Object.fromEntries(total.leftOut)
    for (const name of different.shown) session.note(`Different, and left as it was: ${name}`)
    for (const [kind, count] of total.leftOut) {
      session.note(`Left out, because only records are imported: ${formatCount(count)} of kind ${kind}`)
    }
    const result = { check, lines, added, known, different: different.count, leftOut }
    await session.print(result, () => {
      const verb = check ? 'Would add' : 'Added'
      return `${verb} ${formatCount(added)} of ${formatCount(lines)} records; ${formatCount(known)} were there already, ${formatCount(different.count)} differ\n`
    })
    if (different.count > 0) {
      throw new Failure(
        `Records that differ from those of the same ids, which stay: ${formatCount(different.count)}`,
      )
    }
  },
})

interface Total {
  lines: number
  added: number
  known: number
  readonly different: { count: number; readonly shown: string[] }
  /** Number of exported lines that aren't records, by kind. */
  readonly leftOut: Map<SettingsKind, number>
}

async function importAll(store: RecordStore, owner: string, session: Session): Promise<Total> {
  const total: Total = {
    lines: 0,
    added: 0,
    known: 0,
    different: { count: 0, shown: [] },
    leftOut: new Map(),
  }
  const progress = session.progress('Importing')
  const tools = { minorUnits }
  let batch: GivenRecord[] = []
  let rows = 0

  async function write(): Promise<void> {
    if (batch.length === 0) return
    add(total, batch, await importRecords(store, owner, batch).catch(explainAfter(total)))
    progress.show(`${formatCount(total.lines)} records`)
    batch = []
    rows = 0
  }

  let number = 0
  for await (const line of linesOf(session)) {
    number++
    const text = decode(line, `line ${number}`, total)
    if (text.trim() === '') continue
    const given = readLine(text, `line ${number}`, tools, total)
    if (given === null) continue
    if (batch.length === IMPORT_MAX || rows + given.rows.length > IMPORTED_ROWS_MAX) await write()
    batch.push(given)
    rows += given.rows.length
  }
  await write()
  progress.clear()
  return total
}

function add(total: Total, batch: readonly GivenRecord[], { added, known, different }: ImportReport): void {
  total.lines += batch.length
  total.added += added
  total.known += known
  total.different.count += different.length
  const names = different.map(({ index, kind, id }) => {
    const record = batch[index]
    const isPart = record?.kind !== kind || record.id !== id
    return `${record?.name ?? ''}${isPart ? `: its ${kind} ${id}` : ''}`
  })
  total.different.shown.push(...names.slice(0, SHOWN_MAX - total.different.shown.length))
}

/** Decodes a line, without the byte order mark that some files start with. */
function decode(line: Uint8Array, place: string, total: Total): string {
  if (line.length > LINE_MAX) throw after(total, `Cannot import ${place} because it is longer than 8 MiB`)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(line)
  } catch {
    throw after(total, `Cannot import ${place} because it is not UTF-8`)
  }
}

/** @returns `null` if the line is from an export but isn't a record */
function readLine(
  line: string,
  place: string,
  tools: Parameters<typeof readGivenRecord>[2],
  total: Total,
): GivenRecord | null {
  let parsed: unknown
  try {
    parsed = JSON.parse(line)
  } catch {
    throw after(total, `Cannot import ${place} because it is not JSON`)
  }
  const leftOut = SETTINGS_KINDS.find((kind) => kind === Object(parsed).kind)
  if (leftOut !== undefined) {
    total.leftOut.set(leftOut, (total.leftOut.get(leftOut) ?? 0) + 1)
    return null
  }
  try {
    return readGivenRecord(fromExport(parsed), place, tools)
  } catch (error) {
    return explainAfter(total)(error)
  }
}

/** Merges in the fields that exports print next to the record because the API doesn't show them. */
function fromExport(line: unknown): unknown {
  const { kind, record, ...beside } = Object(line)
  if (typeof record !== 'object' || record === null) return { kind, record }
  const { signedBy, signedAt, ...more } = beside
  const signature =
    signedBy === undefined && signedAt === undefined ? {} : { signature: { signedBy, signedAt } }
  return { kind, record: { ...record, ...more, ...signature } }
}

/** Adds to the error how much had already been written. */
function explainAfter(total: Total): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof BusinessApiError) || error.code === STORE_UNAVAILABLE) throw error
    throw after(total, error.message)
  }
}

function after({ lines }: Total, message: string): Failure {
  const before =
    lines === 0 ? 'nothing was written' : `the ${formatCount(lines)} records before its batch are done`
  return new Failure(`${message}; ${before}`)
}

async function* linesOf({ argument, terminal }: Session): AsyncIterable<Uint8Array> {
  const input: Readable = argument === '-' ? terminal.stdin.stream() : createReadStream(argument)
  try {
    yield* splitLines(input)
  } catch (error) {
    if (codeOf(error) !== '' && !(error instanceof BusinessApiError))
      throw new Failure(`Cannot read ${argument}: ${codeOf(error)}`)
    throw error
  } finally {
    input.destroy()
  }
}

/** Splits a stream into lines. If a line is too long, yields what was read so far and ends. */
async function* splitLines(input: Readable): AsyncIterable<Uint8Array> {
  const LINE_FEED = 10
  let rest = Buffer.alloc(0)
  for await (const chunk of input) {
    const bytes = Buffer.concat([rest, Buffer.from(chunk)])
    let start = 0
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
      yield bytes.subarray(start, end)
      start = end + 1
    }
    rest = bytes.subarray(start)
    if (rest.length > LINE_MAX) break
  }
  yield rest
}
