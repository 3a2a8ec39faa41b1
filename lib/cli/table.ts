import { cut, visible, widthOf } from './text.ts'

/** A column of a table. */
export interface Column<Row> {
  readonly title: string
  value(row: Row): string
  /** Whether it may be cut where there is not room for all: not for ids, of which a part is of no use. */
  readonly isFlexible?: boolean
  /** Whether it may be left out where cutting is not enough, the last one first. */
  readonly isOptional?: boolean
}

const GAP = 2
/** Narrower than this a flexible column says nothing any more. */
const FLEXIBLE_MIN = 8

/**
 * Rows in aligned columns under their titles.
 *
 * @param width columns of the terminal; infinite where nothing is to be cut
 */
export function formatTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width: number,
): string {
  const measured = columns.map((column): MeasuredColumn => {
    const cells = [column.title, ...rows.map((row) => visible(column.value(row)) || '-')]
    const needed = Math.max(...cells.map(widthOf))
    return {
      ...column,
      cells,
      width: needed,
      minWidth: column.isFlexible ? Math.min(needed, FLEXIBLE_MIN) : needed,
    }
  })
  const shown = narrow(chooseShown(measured, width), width)
  const lines = [...Array(rows.length + 1).keys()].map((line) => formatLine(shown, line))
  return lines.map((line) => `${line}\n`).join('')
}

interface MeasuredColumn extends Pick<Column<never>, 'isFlexible' | 'isOptional'> {
  readonly cells: readonly string[]
  readonly width: number
  readonly minWidth: number
}

function sumOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, GAP * (widths.length - 1))
}

function chooseShown(columns: readonly MeasuredColumn[], width: number): readonly MeasuredColumn[] {
  const last = columns.findLastIndex(({ isOptional }) => isOptional)
  if (last === -1 || sumOf(columns.map(({ minWidth }) => minWidth)) <= width) return columns
  return chooseShown(columns.toSpliced(last, 1), width)
}

/** Takes from the widest column that can give, as long as it is too much. */
function narrow(columns: readonly MeasuredColumn[], width: number): readonly MeasuredColumn[] {
  const narrowed = columns.map((column) => ({ ...column }))
  for (let excess = sumOf(columns.map((column) => column.width)) - width; excess > 0; excess--) {
    const giving = narrowed.filter((column) => column.width > column.minWidth)
    const widest = giving.sort((a, b) => b.width - a.width)[0]
    if (!widest) break
    widest.width--
  }
  return narrowed
}

function formatLine(columns: readonly MeasuredColumn[], line: number): string {
  const padded = columns.map(({ cells, width }) => {
    const shown = cut(cells[line] ?? '', width)
    return shown + ' '.repeat(Math.max(0, width - widthOf(shown)))
  })
  return padded.join(' '.repeat(GAP)).trimEnd()
}

/** Names and values in two columns; what has no value is left out. */
export function formatDetails(details: readonly (readonly [name: string, value: string | null])[]): string {
  const shown = details.filter((detail): detail is [string, string] => detail[1] !== null)
  const width = Math.max(...shown.map(([name]) => name.length))
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${visible(value)}\n`).join('')
}
