import {
  type ColumnType,
  columnsOf,
  type NamedColumn,
  type RecordTable,
  snakeCase,
} from '../../resources/columns.ts'
import type { Value } from './statement.ts'

// The parts of statements that follow from the columns of a table. Each parameter of a new record has the name of its column.

/** A new record's columns, as values of a statement. */
export type ColumnValues = Readonly<Record<string, Value>>

/** Gives the values of a new record. */
export function valuesOf(columns: readonly NamedColumn[], record: object): ColumnValues {
  const values: Record<string, Value> = {}
  for (const { field, name } of columns) {
    const value: unknown = Reflect.get(record, field)
    values[name] = value === null || value === undefined ? null : String(value)
  }
  return values
}

/** The value of a new record for a column. */
export function given({ name, type }: NamedColumn): string {
  return type === 'text' ? `@${name}::text` : `@${name}::text::${type}`
}

/** Joins the names of columns. @param of a row's name, with a dot */
export function namesOf(columns: readonly NamedColumn[], of = ''): string {
  return columns.map(({ name }) => of + name).join(', ')
}

/**
 * Builds the insert of a new record, which writes nothing if the record is there already.
 *
 * @param from the step without a row if nothing may be written
 * @param replaced SQL in place of the given values, by the names of columns
 */
export function insertInto(
  table: string,
  columns: readonly NamedColumn[],
  from: string,
  replaced: Readonly<Record<string, string>> = {},
): string {
  return `
    insert into business_api.${table} (organization_id, ${namesOf(columns)})
    select @organizationId::text, ${columns.map((column) => replaced[column.name] ?? given(column)).join(', ')}
    from ${from}
    on conflict (organization_id, id) do nothing
    returning id`
}

/**
 * Builds the columns of a record after a change: as given, else as before.
 *
 * @param replaced SQL in place of these values, by column
 */
export function afterChange(
  columns: readonly NamedColumn[],
  replaced: Readonly<Record<string, string>> = {},
): string {
  const after = columns.map((column) => {
    const own = replaced[column.name]
    if (own !== undefined) return `${own} as ${column.name}`
    return column.isChangeable ? orBefore(column.name, column.field, column.type) : `before.${column.name}`
  })
  return after.join(', ')
}

/**
 * A column after the change: the given value, else the previous one; in a repeat the current one.
 *
 * @param field of the given values, as JSON of strings: `@set`
 */
function orBefore(column: string, field: string, type: ColumnType): string {
  return `
    case
      when before.is_repeat or not pg_catalog.jsonb_exists(@set::text::jsonb, '${field}') then before.${column}
      else (@set::text::jsonb ->> '${field}')::${type}
    end as ${column}`
}

/** Builds the assignments of a change, from a row. @param also the names of columns that the change computes itself */
export function assign(
  columns: readonly NamedColumn[],
  { row = 'after', also = [] }: { readonly row?: string; readonly also?: readonly string[] } = {},
): string {
  return columns
    .filter(({ name, isChangeable }) => isChangeable || also.includes(name))
    .map(({ name }) => `${name} = ${row}.${name}`)
    .join(', ')
}

/**
 * Builds the representation of a row.
 *
 * @param more further arguments of the function, by name
 */
export function represent(
  table: RecordTable,
  row: string,
  more: Readonly<Record<string, string>> = {},
): string {
  const shown = columnsOf(table)
    .filter(({ isHidden }) => !isHidden)
    .map(({ field, name }) => `${snakeCase(field)} => ${row}.${name}`)
  const further = Object.entries(more).map(([name, value]) => `${name} => ${value}`)
  return `business_api.${table.kind}_representation(${[...shown, ...further].join(', ')})`
}
