import { visible } from '../base/visible-text.ts'
import { formatPairs, pad, widthOf, wrap } from './text.ts'

/** A table column. */
export interface Column<Row> {
  readonly title: string
  value(row: Row): string
}

const GAP = 2
/** Indentation of a row's continuation lines */
const INDENT = 2
/** Minimum width for wrapping a column. Narrower columns take fewer lines when moved to a separate line. */
const WRAPPED_MIN = 60

/** A column with its cells. The first cell is the title. */
interface MeasuredColumn {
  readonly cells: readonly string[]
  /** The widest cell's width, or the available space if cells are wrapped. */
  readonly width: number
}

/**
 * Formats rows as aligned columns with titles. Columns are never omitted and cells never truncated. If the terminal is
 * too narrow, rows continue on indented lines.
 *
 * @param width terminal width in columns, or infinite for exactly one line per row
 */
export function formatTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width: number,
): string {
  const measured = columns.map(({ title, value }): MeasuredColumn => {
    const cells = [title, ...rows.map((row) => visible(value(row)) || '-')]
    return { cells, width: Math.max(...cells.map(widthOf)) }
  })
  const groups = distribute(measured, width)
  const lines = [...Array(rows.length + 1).keys()].flatMap((row) =>
    groups.flatMap((group, index) => formatCells(group, row, index === 0 ? 0 : INDENT)),
  )
  return lines.map((line) => `${line}\n`).join('')
}

/** Distributes the columns over a row's lines, in order, with as many columns per line as possible. */
function distribute(
  columns: readonly MeasuredColumn[],
  width: number,
): readonly (readonly MeasuredColumn[])[] {
  const groups: MeasuredColumn[][] = [[]]
  let left = width
  for (const [index, column] of columns.entries()) {
    const isLast = index === columns.length - 1
    const group = groups.at(-1) ?? []
    const rest = left - (group.length === 0 ? 0 : GAP)
    // The last column gets the rest of its line if there's enough space for text.
    if (column.width <= rest || (isLast && rest >= WRAPPED_MIN)) {
      group.push({ ...column, width: Math.min(column.width, rest) })
      left = rest - column.width
    } else {
      const own = { ...column, width: Math.min(column.width, width - INDENT) }
      groups.push([own])
      left = width - INDENT - own.width
    }
  }
  return groups.filter((group) => group.length > 0)
}

/** Formats the cells that share a line. Omits a continuation line if all of its cells are empty. */
function formatCells(columns: readonly MeasuredColumn[], row: number, indent: number): readonly string[] {
  const cells = columns.map((column) => column.cells[row] ?? '')
  if (indent > 0 && cells.every((cell) => cell === '-')) return []
  const wrapped = columns.map(({ width }, index) => wrap(cells[index] ?? '', width))
  const height = Math.max(...wrapped.map((lines) => lines.length))
  return [...Array(height).keys()].map((line) => {
    const parts = columns.map(({ width }, index) => pad(wrapped[index]?.[line] ?? '', width))
    return (' '.repeat(indent) + parts.join(' '.repeat(GAP))).trimEnd()
  })
}

/** Formats names and values in two columns. Omits names that have no value. */
export function formatDetails(
  details: readonly (readonly [name: string, value: string | null])[],
  width: number,
): string {
  const shown = details.flatMap(([name, value]) => (value === null ? [] : [[name, visible(value)] as const]))
  return formatPairs(shown, width)
}
