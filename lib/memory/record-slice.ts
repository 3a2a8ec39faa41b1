import type { AdmissionRequest, AdmittedPage, PageRequest } from '../access/admission.ts'
import type { RecordReads, Updated } from '../resources/record-reads.ts'
import { admitToPage } from './admission.ts'
import { getRecord, listRecords, withUpdatedAt } from './record-list.ts'
import type { Memory, Organization } from './state.ts'
import type { SyncedRecords } from './synced-records.ts'

/** How a kind of records is read. */
export interface ReadSlice<Row, Shown, Stored, Filter> {
  records(organization: Organization): SyncedRecords<Row>
  /** Gives a record as the API shows it. */
  shown(row: Row): Shown
  /** Gives a record as the host reads it, without the time of the latest change. */
  stored(row: Row): Stored
  isWanted(record: Stored, filter: Filter): boolean
  /** Sorts records, the greatest key first. Default by id. */
  keyOf?(filter: Filter): ((record: Stored) => string) | undefined
}

/** Creates the verbs of a slice that read. */
export function readSlice<
  Row extends { readonly id: string },
  Shown,
  Stored extends { readonly id: string },
  Filter,
>(
  memory: Memory,
  { records, shown, stored, isWanted, keyOf = () => undefined }: ReadSlice<Row, Shown, Stored, Filter>,
): RecordReads<Stored & Updated, Filter> & {
  admitAndList(request: AdmissionRequest, asked: PageRequest): Promise<AdmittedPage<Shown>>
} {
  return {
    async admitAndList(request, asked) {
      return admitToPage(memory, request, asked, records, shown)
    },

    async list(organizationId, filter, limit, before) {
      const rows = records(memory.organization(organizationId))
      const key = keyOf(filter)
      const withTime = withUpdatedAt(rows)
      const all = [...rows.values()].map((row): Stored & Updated => withTime(stored(row)))
      return listRecords<Stored & Updated>(all, {
        limit,
        before,
        isWanted: (record) => isWanted(record, filter),
        ...(key && { keyOf: key }),
      })
    },

    async get(organizationId, id) {
      const rows = records(memory.organization(organizationId))
      const row = rows.get(id)
      return getRecord(row && withUpdatedAt(rows)(stored(row)))
    },
  }
}
