import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { defineCall, found, IdSchema } from '../base/host-input.ts'
import { type Page, readPage, recordPageEntries } from '../base/page.ts'
import type { RecordReads } from '../resources/record-reads.ts'

// All reads validate the input, call a single store method, and return the result or throw an error with a code.

/** A resource's reads. */
export interface Reads<Stored, Query = object> {
  /** Lists the records, newest first. */
  list(organizationId: string, query?: Query): Promise<Page<Stored>>
  /**
   * Returns a record.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no record with this id
   */
  get(organizationId: string, id: string): Promise<Stored>
}

/**
 * Creates a resource's reads.
 *
 * @param names used in error messages, for example `['client', 'clients']`
 * @param entries the schemas for the filter's fields, whose output is passed to the store
 * @param slice returns the part of the store to read from
 * @param check rejects filters whose fields can't be combined
 */
export function createReads<Stored extends { readonly id: string }, Filter extends object>(
  [one, many]: readonly [one: string, many: string],
  entries: v.ObjectEntries,
  slice: () => RecordReads<Stored, Filter>,
  check: (filter: Filter, action: string) => void = () => {},
): Reads<Stored> {
  const readList = defineCall(`Cannot list ${many}`, { ...entries, ...recordPageEntries() })
  const readGet = defineCall(`Cannot get the ${one}`, { id: IdSchema })
  return {
    async list(organizationId, query) {
      const { action, organizationId: owner, input } = readList(organizationId, query)
      const { limit, before, ...fields } = input
      // This is the output of `entries`.
      const filter = fields as unknown as Filter
      check(filter, action)
      return readPage(limit, (count) => slice().list(owner, filter, count, before))
    },
    async get(organizationId, id) {
      const { action, organizationId: owner, input } = readGet(organizationId, { id })
      return found(await slice().get(owner, input.id), action)
    },
  }
}

/** Maximum number of values in a filter. */
const VALUES_MAX = 20
const statesRequirement = `must be an array of at most ${VALUES_MAX} strings, each of 1 to 64 characters`
const StateSchema = field.text(1, 64)

/** Statuses or stages to filter by. Hosts can store their own values, so any string is valid. */
export const StatesSchema: v.GenericSchema<readonly string[]> = v.pipe(
  v.array(v.string(statesRequirement), statesRequirement),
  v.maxLength(VALUES_MAX, statesRequirement),
  v.check((states) => states.every((state) => v.is(StateSchema, state)), statesRequirement),
)
