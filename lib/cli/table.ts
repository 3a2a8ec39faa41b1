import { visible } from '../base/visible-text.ts'
import { formatPairs, pad, widthOf, wrap } from './text.ts'

/** A column of a table. */
export interface Column<Row> {
  readonly title: string
  value(row: Row): string
}

const GAP = 2
/** Indentation of a row's further lines. */
const INDENT = 2
/** A narrower column of wrapped text makes rows taller than a line of their own does. */
const WRAPPED_MIN = 60

/** A column with its cells, the title first. */
interface MeasuredColumn {
  readonly cells: readonly string[]
  /** Width of the widest cell, or what the terminal has left for cells that are wrapped. */
  readonly width: number
}

/**
 * Formats rows in aligned columns under their titles. No column is left out and no cell is cut: where the terminal is too
 * narrow for a row, each row goes on in further, indented lines.
 *
 * @param width columns of the terminal; infinite for one line for each row
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

/** Distributes the columns over the lines of a row, in order, as many as each line can hold. */
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
    // The last column takes the rest of its line where that is wide enough for text.
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

/** Formats the cells of a row that share a line; empty for a further line without any value. */
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

/** Formats names and values in two columns, and leaves out names without a value. */
export function formatDetails(
  details: readonly (readonly [name: string, value: string | null])[],
  width: number,
): string {
  const shown = details.flatMap(([name, value]) => (value === null ? [] : [[name, visible(value)] as const]))
  return formatPairs(shown, width)
}
