import type { IdKind } from '../base/ids.ts'

/** The columns of a record kind, by field. Statements, imports, exports, erasure and privileges follow from these lists. */
export interface RecordTable<Fields extends object = object> {
  /** Names the function of the representation: `client_representation`. */
  readonly kind: string
  /** The prefix of the ids. */
  readonly idKind: IdKind
  /** The name of the table in the schema `business_api`. */
  readonly table: string
  readonly columns: Columns<Fields>
}

/** A column for each field. A field without a column does not compile. */
export type Columns<Fields extends object> = { readonly [Field in keyof Fields & string]-?: Column }

/** The column of a field. */
export interface Column {
  /** Default `text`. */
  readonly type?: ColumnType
  /** The name in SQL. Default the field's name in snake case. */
  readonly name?: string
  /** A change may set the column. */
  readonly isChangeable?: true
  /** Only imports, exports and the host's own reads have the field: the API does not show it. */
  readonly isHidden?: true
  /** The value that erasure writes over a personal value. Absent: the value is not personal. */
  readonly forgotten?: string | null
}

/** The type of a column in SQL. */
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

/** A column with the name in SQL, and the field. */
export interface NamedColumn extends Column {
  readonly field: string
  readonly name: string
  readonly type: ColumnType
}

/** Lists the columns of a table. */
export function columnsOf({ columns }: Pick<RecordTable, 'columns'>): readonly NamedColumn[] {
  return Object.entries<Column>(columns).map(([field, column]) => {
    return { field, name: snakeCase(field), type: 'text', ...column }
  })
}

/** Gives the name of the column with the id. */
export function idOf(table: RecordTable): string {
  return columnsOf(table).find(({ field }) => field === 'id')?.name ?? 'id'
}

/** Formats a field's name as SQL names are: `totalRevenue` gives `total_revenue`. */
export function snakeCase(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** Gives the personal fields of a record as erasure leaves them. */
export function forgotten<Fields extends object>(table: RecordTable<Fields>): Partial<Fields> {
  const personal = columnsOf(table).filter((column) => column.forgotten !== undefined)
  return Object.fromEntries(personal.map((column) => [column.field, column.forgotten])) as Partial<Fields>
}

/** Gives the fields of a record that the API shows. */
export function shownFields<Fields extends object, Shown extends Partial<Fields>>(
  { columns }: RecordTable<Fields>,
  record: Fields & Shown,
): Shown {
  const isShown = ([field]: [string, unknown]): boolean => !Reflect.get(columns, field)?.isHidden
  return Object.fromEntries(Object.entries(record).filter(isShown)) as Shown
}
