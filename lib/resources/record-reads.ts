import type { AdmissionRequest, AdmittedPage, PageRequest } from '../access/admission.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, CreationOutcome } from '../writes/creation.ts'
import type { RecordTable } from './columns.ts'

/** A timestamp that's only returned to the host, not by the API. */
export interface Updated {
  /**
   * When the transaction that last changed the record started (ISO 8601, UTC, with milliseconds). Changing a business
   * counts as a change to the client.
   */
  readonly updatedAt: string
}

/** Methods that the host's own code uses to read records, without an API key. */
export interface RecordReads<Stored, Filter> {
  /**
   * Lists the newest matching records by descending id. Records must match every field in the filter.
   *
   * @param filter an omitted field matches everything, an empty array nothing
   * @param limit maximum number of records
   * @param before the last id on the previous page, or `null` to start with the newest
   */
  list(
    organizationId: string,
    filter: Filter,
    limit: number,
    before: string | null,
  ): Promise<readonly Stored[]>

  /** Returns a record, or `null` if the organization doesn't have a record with this id. */
  get(organizationId: string, id: string): Promise<Stored | null>
}

/** Methods for reading a resource that the API can list. */
export interface ListedReads<Shown, Stored, Filter> extends RecordReads<Stored, Filter> {
  /**
   * Decides whether to admit a request and, if so, reads a page of the organization's records by descending id. If
   * there aren't any records, the page is empty rather than `null`.
   */
  admitAndList(request: AdmissionRequest, asked: PageRequest): Promise<AdmittedPage<Shown>>
}

/** Filters records by status. Omitted properties match everything. */
export interface StatusFilter {
  /** Matches records with any of these statuses, for example `['active', 'on_hold']`. */
  readonly statuses?: readonly string[] | undefined
}

/** A record that has a status and is returned exactly as stored. */
export interface PlainRecord {
  readonly id: string
  readonly status: string
}

/** The columns of a kind of plain record. */
export interface PlainTable<Kind extends string, Row extends PlainRecord> extends RecordTable<Row> {
  readonly kind: Kind
}

/** The part of a store that manages a kind of plain record. */
export interface PlainStore<Row extends PlainRecord> extends ListedReads<Row, Row & Updated, StatusFilter> {
  /** Writes the record, the events and the idempotency entry in one transaction. */
  create(creation: Creation<Row>): Promise<CreationOutcome>

  /** Changes a record's status. */
  change(change: Change<Pick<Row, 'status'>>): Promise<ChangeOutcome<Row>>
}
