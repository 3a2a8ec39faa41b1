import type { ListedReads, Updated } from '../resources/record-reads.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, CreationOutcome } from '../writes/creation.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { admitToPage } from './admission.ts'
import { applyChange } from './change.ts'
import { commit, draft, judgeCreation, storeOnce } from './creation.ts'
import { getRecord, listRecords } from './record-list.ts'
import type { Memory, Organization } from './state.ts'
import type { SyncedRecords } from './synced-records.ts'

/** How to read one kind of record. */
export interface ReadSlice<Row, Shown, Stored, Filter> {
  records(organization: Organization): SyncedRecords<Row>
  /** Returns a record in the API's format. */
  shown(row: Row, organization: Organization): Shown
  /** Returns a record in the host's format, but without the last-modified time. */
  stored(row: Row, organization: Organization): Stored
  isWanted(record: Stored, filter: Filter): boolean
  /** Returns the sort key. Records are sorted in descending order. Defaults to the id. */
  keyOf?(filter: Filter): ((record: Stored) => string) | undefined
}

/** Creates a slice's methods for reading records. */
export function readSlice<Row extends Identified, Shown, Stored extends Identified, Filter>(
  memory: Memory,
  { records, shown, stored, isWanted, keyOf = () => undefined }: ReadSlice<Row, Shown, Stored, Filter>,
): ListedReads<Shown, Stored & Updated, Filter> {
  function withTime(row: Row, organization: Organization): Stored & Updated {
    const { at } = records(organization).changes.get(row.id) ?? { at: 0 }
    return { ...stored(row, organization), updatedAt: toTimestamp(at) }
  }

  return {
    admitAndList: async (request, asked) => admitToPage(memory, request, asked, records, shown),

    async list(organizationId, filter, limit, before) {
      const organization = memory.organization(organizationId)
      const key = keyOf(filter)
      const all = [...records(organization).values()].map((row) => withTime(row, organization))
      return listRecords<Stored & Updated>(all, {
        limit,
        before,
        isWanted: (record) => isWanted(record, filter),
        ...(key && { keyOf: key }),
      })
    },

    async get(organizationId, id) {
      const organization = memory.organization(organizationId)
      const row = records(organization).get(id)
      return getRecord(row && withTime(row, organization))
    },
  }
}

/** Adds a record to a collection. */
export function createRecord<Row extends Identified>(
  memory: Memory,
  records: (organization: Organization) => Map<string, Row>,
  creation: Creation<Row>,
): CreationOutcome {
  const given = draft(memory, creation)
  const { organization, record } = given
  return judgeCreation(given) ?? commit(given, () => storeOnce(records(organization), record.id, record))
}

/** Sets some of a record's fields. `shown` returns the record in the API's format. Defaults to the record as stored. */
export function changeRecord<
  Row extends Identified & { readonly status: string },
  Shown extends object = Row,
>(
  memory: Memory,
  records: (organization: Organization) => Map<string, Row>,
  change: Change<Partial<NoInfer<Row>>>,
  shown: (row: Row, organization: Organization) => Shown = (row) => row as object as Shown,
): ChangeOutcome<Shown> {
  return applyChange(memory, change, {
    records,
    stateOf: ({ status }) => status,
    represent: shown,
    decide: (row) => ({ record: { ...row, ...change.set } }),
  })
}

interface Identified {
  readonly id: string
}
