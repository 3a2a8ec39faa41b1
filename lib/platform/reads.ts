import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { defineCall, found, IdSchema } from '../base/host-input.ts'
import { type Page, readPage, recordPageEntries } from '../base/page.ts'
import type { RecordReads } from '../resources/record-reads.ts'

// Every read has the same steps: check the input, ask one verb of the store, and make a page or a typed error.

/** The two reads of a resource. */
export interface Reads<Stored, Query = object> {
  /** Lists the records, newest first. */
  list(organizationId: string, query?: Query): Promise<Page<Stored>>
  /**
   * Gives a record.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no record with this id
   */
  get(organizationId: string, id: string): Promise<Stored>
}

/**
 * Builds the reads of a resource.
 *
 * @param names for error messages: `['client', 'clients']`
 * @param the filter's schema entries, whose output is the store's filter
 * @param slice returns the store's slice
 * @param check rejects filters whose fields do not go together
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
      // The output of `entries`.
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

/** Values at most in a filter. */
const VALUES_MAX = 20
const statesRequirement = `must be an array of at most ${VALUES_MAX} strings, each of 1 to 64 characters`
const StateSchema = field.text(1, 64)

/** The statuses or stages of a filter. Any string is valid, because the host may store its own values. */
export const StatesSchema: v.GenericSchema<readonly string[]> = v.pipe(
  v.array(v.string(statesRequirement), statesRequirement),
  v.maxLength(VALUES_MAX, statesRequirement),
  v.check((states) => states.every((state) => v.is(StateSchema, state)), statesRequirement),
)
