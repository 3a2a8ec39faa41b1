import type { Business, BusinessStore } from '../resources/businesses.ts'
import type { RecordDatabase } from './connection/database.ts'
import { defineChange, isAllowed, orBefore, setOf, writeChange } from './statements/change.ts'
import { type CreationValues, creationValues, defineWrite, published } from './statements/key-reservation.ts'
import { getRecord, listRecords, type RecordTable } from './statements/read.ts'
import { writeCreation } from './statements/write.ts'

const RECORD: RecordTable = { table: 'business_api.businesses', representation: 'record.representation' }

const CREATE = defineWrite<CreationValues & BusinessValues>((reserve) => ({
  steps: [reserve(), insertBusiness(), published('business')],
  answer: {},
}))

const REPRESENTATION =
  'business_api.business_representation(after.id, after.name, after.category, after.city, after.email, after.phone)'

const CHANGE = defineChange<{ readonly set: string }>({
  table: 'business_api.businesses',
  // A business has no state; the answer needs a column that is never null.
  state: 'id',
  isSynced: false,
  after: [
    `after as (
      select
        before.id, ${orBefore('name')}, ${orBefore('category')}, ${orBefore('city')},
        ${orBefore('email')}, ${orBefore('phone')}
      from before
      where ${isAllowed('id')}
    )`,
  ],
  representation: REPRESENTATION,
  // `copied` and the copies change together: see "Copies of businesses" in sql/11-clients.sql. A repeat changes neither, because the
  // business may have been changed by SQL since.
  set: `
    name = after.name, category = after.category, city = after.city, email = after.email, phone = after.phone,
    copied = ${REPRESENTATION}`,
  alongside: {
    name: 'copied',
    step: `
      select case
        when not before.is_repeat
        then business_api.copy_to_client(@organizationId::text, after.id, represented.representation)
      end
      from before, after, represented, reserved`,
  },
})

/** Businesses in PostgreSQL. */
export function createBusinessRecordStore(database: RecordDatabase): BusinessStore {
  return {
    create(creation) {
      const { record } = creation
      const values = { ...creationValues(creation, record.id), ...businessValues(record) }
      return writeCreation(database, creation, CREATE, values)
    },

    list: (organizationId, _filter, limit, before) =>
      listRecords(database, RECORD, organizationId, () => ({ limit, before })),

    get: (organizationId, id) => getRecord(database, RECORD, organizationId, id),
    change: (given) => writeChange(database, given, CHANGE, { set: setOf({ ...given.set }) }),
  }
}

/** The values of a new business. */
export interface BusinessValues {
  readonly businessId: string
  readonly name: string
  readonly category: string | null
  readonly city: string | null
  readonly email: string | null
  readonly phone: string | null
}

/** Gives the values of a new business. */
export function businessValues({ id, name, category, city, email, phone }: Business): BusinessValues {
  return { businessId: id, name, category, city, email, phone }
}

/** The step `business`, which inserts a business: a row with the representation `copied`; no row if the business was there already. */
export function insertBusiness(): string {
  return `business as (
    insert into business_api.businesses (organization_id, id, name, category, city, email, phone, copied)
    select
      @organizationId::text, @businessId::text, @name::text, @category::text, @city::text, @email::text, @phone::text,
      business_api.business_representation(
        @businessId::text, @name::text, @category::text, @city::text, @email::text, @phone::text
      )
    from reserved
    on conflict (organization_id, id) do nothing
    returning copied
  )`
}
