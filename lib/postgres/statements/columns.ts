import {
  type ColumnType,
  columnsOf,
  type NamedColumn,
  type RecordTable,
  snakeCase,
} from '../../resources/columns.ts'
import type { Value } from './statement.ts'

// Parts of statements that are derived from a table's columns. A new record's parameters are named after its columns.

/** A new record's columns, as parameter values. */
export type ColumnValues = Readonly<Record<string, Value>>

/** Returns a new record's column values. */
export function valuesOf(columns: readonly NamedColumn[], record: object): ColumnValues {
  const values: Record<string, Value> = {}
  for (const { field, name } of columns) {
    const value: unknown = Reflect.get(record, field)
    values[name] = value === null || value === undefined ? null : String(value)
  }
  return values
}

/** Builds the expression for a new record's column. */
export function given({ name, type }: NamedColumn): string {
  return type === 'text' ? `@${name}::text` : `@${name}::text::${type}`
}

/** Joins column names. @param of a row's name, followed by a dot */
export function namesOf(columns: readonly NamedColumn[], of = ''): string {
  return columns.map(({ name }) => of + name).join(', ')
}

/**
 * Builds the insert for a new record, which is a no-op if the record already exists.
 *
 * @param from a step that has no row if nothing may be written
 * @param replaced SQL to use instead of the given values, by column name
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
 * Builds a record's columns after a change, each with the new value if given, or else the old one.
 *
 * @param replaced SQL to use instead, by column name
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

/** Builds a column with the new value if `field` is in `@set`, or else the old one. A retry keeps the current value. */
function orBefore(column: string, field: string, type: ColumnType): string {
  return `
    case
      when before.is_repeat or not pg_catalog.jsonb_exists(@set::text::jsonb, '${field}') then before.${column}
      else (@set::text::jsonb ->> '${field}')::${type}
    end as ${column}`
}

/** Builds a change's assignments from a row. @param also names of columns that the change computes itself */
export function assign(
  columns: readonly NamedColumn[],
  { row = 'after', also = [] }: { readonly row?: string; readonly also?: readonly string[] } = {},
): string {
  return columns
    .filter(({ name, isChangeable }) => isChangeable || also.includes(name))
    .map(({ name }) => `${name} = ${row}.${name}`)
    .join(', ')
}

/** Builds a row's representation. @param more additional arguments for the function, by name */
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
