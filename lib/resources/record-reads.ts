import type { AdmissionRequest, AdmittedPage, PageRequest } from '../access/admission.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, CreationOutcome } from '../writes/creation.ts'
import type { RecordTable } from './columns.ts'

/** The time that the host's reads show beside the API's fields. */
export interface Updated {
  /**
   * The latest change of the record, ISO 8601 in UTC with milliseconds: the beginning of the transaction that wrote the record.
   * Changing a business changes its client too.
   */
  readonly updatedAt: string
}

/** The verbs of a slice for reading records on behalf of the host's own code, without an API key. */
export interface RecordReads<Stored, Filter> {
  /**
   * Lists the newest records that the filter selects, newest id first. Every field of a filter narrows the list.
   *
   * @param filter an absent field selects all; an empty array selects none
   * @param limit maximum number of records
   * @param before the previous page's last id; null: from the newest
   */
  list(
    organizationId: string,
    filter: Filter,
    limit: number,
    before: string | null,
  ): Promise<readonly Stored[]>

  /** Reads a record; null if the id does not exist in the organization. */
  get(organizationId: string, id: string): Promise<Stored | null>
}

/** The verbs of a slice for reading the records of a resource that the API lists. */
export interface ListedReads<Shown, Stored, Filter> extends RecordReads<Stored, Filter> {
  /**
   * Admits or rejects the request and, if admitted, reads a page of the organization's records, newest id first. The page is empty, not
   * null, where there are no records.
   */
  admitAndList(request: AdmissionRequest, asked: PageRequest): Promise<AdmittedPage<Shown>>
}

/** Selects records by their status; an absent property selects all. */
export interface StatusFilter {
  /** Any of these: `['active', 'on_hold']`. */
  readonly statuses?: readonly string[] | undefined
}

/** A record that is shown as it is stored, and has a status. */
export interface PlainRecord {
  readonly id: string
  readonly status: string
}

/** The columns of plain records. */
export interface PlainTable<Kind extends string, Row extends PlainRecord> extends RecordTable<Row> {
  readonly kind: Kind
}

/** The slice of a store for plain records. */
export interface PlainStore<Row extends PlainRecord> extends ListedReads<Row, Row & Updated, StatusFilter> {
  /** Writes the record, the events and the idempotency entry at once or not at all. */
  create(creation: Creation<Row>): Promise<CreationOutcome>

  /** Changes the status of a record. */
  change(change: Change<Pick<Row, 'status'>>): Promise<ChangeOutcome<Row>>
}
