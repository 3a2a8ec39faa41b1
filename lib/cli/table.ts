import { visible } from '../base/visible-text.ts'
import { formatPairs, pad, widthOf, wrap } from './text.ts'

/** A column of a table. */
export interface Column<Row> {
  readonly title: string
  value(row: Row): string
}

const GAP = 2
/** Indentation of a row's additional lines. */
const INDENT = 2
/** With less space for a column, wrapping makes rows taller than moving the column to a separate line. */
const WRAPPED_MIN = 60

/** A column with its cells, starting with the title. */
interface MeasuredColumn {
  readonly cells: readonly string[]
  /** Width of the widest cell, or the available space if cells are wrapped. */
  readonly width: number
}

/**
 * Formats rows in aligned columns with titles. Columns are never left out and cells never truncated. If the terminal is
 * too narrow, each row continues on indented lines.
 *
 * @param width columns of the terminal, or infinite to put each row on a single line
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

/** Distributes the columns over the lines of a row, in order. Each line gets as many as fit. */
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
    // The last column gets the rest of its line if there is enough space for text.
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

/** Formats the cells of a row that share a line. Additional lines are left out if all of their cells are empty. */
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

/** Formats names and values in two columns. Names without a value are left out. */
export function formatDetails(
  details: readonly (readonly [name: string, value: string | null])[],
  width: number,
): string {
  const shown = details.flatMap(([name, value]) => (value === null ? [] : [[name, visible(value)] as const]))
  return formatPairs(shown, width)
}
