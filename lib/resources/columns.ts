import type { IdKind } from '../base/ids.ts'

/** The columns of a kind of record. We derive SQL, imports, exports, erasure and privileges from these. */
export interface RecordTable<Fields extends object = object> {
  /** Part of the name of the SQL function that returns the record, for example `client_representation`. */
  readonly kind: string
  /** The id prefix. */
  readonly idKind: IdKind
  /** The table name in the `business_api` schema. */
  readonly table: string
  readonly columns: Columns<Fields>
}

/** Requires a column for every field, so forgetting one is a compile error. */
export type Columns<Fields extends object> = { readonly [Field in keyof Fields & string]-?: Column }

/** The column that stores a field. */
export interface Column {
  /** Defaults to `text`. */
  readonly type?: ColumnType
  /** The SQL name. Defaults to the field name in snake case. */
  readonly name?: string
  /** If `true`, changes can set this column. */
  readonly isChangeable?: true
  /** If `true`, the API doesn't return this field. It's only used in imports, exports and the host's own reads. */
  readonly isHidden?: true
  /** The replacement for personal data when erased. Absent if the column doesn't contain personal data. */
  readonly forgotten?: string | null
}

/** A column's SQL type. */
export type ColumnType =
  | 'text'
  | 'text[]'
  | 'boolean'
  | 'integer'
  | 'float8'
  | 'numeric'
  | 'numeric(15, 3)'
  | 'timestamptz'

/** The name given to an erased signatory or business. */
export const FORGOTTEN_NAME = 'Deleted'

/** A column with the field and SQL name. */
export interface NamedColumn extends Column {
  readonly field: string
  readonly name: string
  readonly type: ColumnType
}

/** Returns all of a table's columns. */
export function columnsOf({ columns }: Pick<RecordTable, 'columns'>): readonly NamedColumn[] {
  return Object.entries<Column>(columns).map(([field, column]) => {
    return { field, name: snakeCase(field), type: 'text', ...column }
  })
}

/** Returns the SQL name of the id column. */
export function idOf(table: RecordTable): string {
  return columnsOf(table).find(({ field }) => field === 'id')?.name ?? 'id'
}

/** Converts a field name to an SQL name, for example `totalRevenue` to `total_revenue`. */
export function snakeCase(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** Returns a record's personal fields with the values they get when erased. */
export function forgotten<Fields extends object>(table: RecordTable<Fields>): Partial<Fields> {
  const personal = columnsOf(table).filter((column) => column.forgotten !== undefined)
  return Object.fromEntries(personal.map((column) => [column.field, column.forgotten])) as Partial<Fields>
}

/** Returns the record fields that the API shows. */
export function shownFields<Fields extends object, Shown extends Partial<Fields>>(
  { columns }: RecordTable<Fields>,
  record: Fields & Shown,
): Shown {
  const isShown = ([field]: [string, unknown]): boolean => !Reflect.get(columns, field)?.isHidden
  return Object.fromEntries(Object.entries(record).filter(isShown)) as Shown
}
