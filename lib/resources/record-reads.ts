import type { AdmissionRequest, AdmittedPage, PageRequest } from '../access/admission.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, CreationOutcome } from '../writes/creation.ts'
import type { RecordTable } from './columns.ts'

/** A time that is only returned to the host, not by the API. */
export interface Updated {
  /**
   * When the record last changed (ISO 8601, UTC, with milliseconds). This is the start of the transaction that wrote
   * it. Changing a business counts as a change to its client.
   */
  readonly updatedAt: string
}

/** The methods used by the host's own code to read records, without an API key. */
export interface RecordReads<Stored, Filter> {
  /**
   * Lists the newest records that match the filter by descending id. Records must match all fields of the filter.
   *
   * @param filter an absent field matches all records, an empty array matches none
   * @param limit the maximum number of records
   * @param before the last id of the previous page, or `null` to start with the newest
   */
  list(
    organizationId: string,
    filter: Filter,
    limit: number,
    before: string | null,
  ): Promise<readonly Stored[]>

  /** Returns a record, or `null` if the organization has no record with this id. */
  get(organizationId: string, id: string): Promise<Stored | null>
}

/** The methods for reading a resource that the API can list. */
export interface ListedReads<Shown, Stored, Filter> extends RecordReads<Stored, Filter> {
  /**
   * Decides whether to admit a request. If it's admitted, reads a page of the organization's records by descending id.
   * If there are no records, the page is empty and not `null`.
   */
  admitAndList(request: AdmissionRequest, asked: PageRequest): Promise<AdmittedPage<Shown>>
}

/** Selects records by status. An absent property matches all of them. */
export interface StatusFilter {
  /** Matches records with any of these statuses, for example `['active', 'on_hold']`. */
  readonly statuses?: readonly string[] | undefined
}

/** A record that has a status and is returned exactly as stored. */
export interface PlainRecord {
  readonly id: string
  readonly status: string
}

/** The columns of plain records. */
export interface PlainTable<Kind extends string, Row extends PlainRecord> extends RecordTable<Row> {
  readonly kind: Kind
}

/** The part of a store that manages a kind of plain record. */
export interface PlainStore<Row extends PlainRecord> extends ListedReads<Row, Row & Updated, StatusFilter> {
  /** Writes the record, its events and the idempotency entry in one transaction. */
  create(creation: Creation<Row>): Promise<CreationOutcome>

  /** Changes the status of a record. */
  change(change: Change<Pick<Row, 'status'>>): Promise<ChangeOutcome<Row>>
}
