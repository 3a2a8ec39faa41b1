import { attributes, type Content, type Html, html } from '../html.ts'

/** A column of a table. */
export interface Column<Item> {
  readonly head: string
  /** True for cells that need no head: the narrow layout shows the cell alone. Default false. */
  readonly isPlain?: boolean
  /** The width in a list of lines, 8.5, 11 or 17 rem. Default a share of what the others leave. */
  readonly width?: 'small' | 'medium' | 'large'
  cell(item: Item): Content
}

/**
 * A list with one line for each item. In the narrow layout an item has two lines: the first and the last column, and the others.
 * What does not fit is cut, because the first column leads to a page with all of it.
 */
export function lines<Item>(caption: string, columns: readonly Column<Item>[], items: readonly Item[]): Html {
  const plain = columns.map((column) => ({ ...column, isPlain: true }))
  return table(caption, plain, items, 'ba-table ba-lines')
}

/**
 * A table whose first column names the row. The narrow layout shows each row as a list, and several browsers then drop the
 * roles of a table. The script adds the roles again, because in the markup they would be a seventh of each row.
 */
export function table<Item>(
  caption: string,
  columns: readonly Column<Item>[],
  items: readonly Item[],
  kind = 'ba-table',
): Html {
  const [first, ...others] = columns
  return html`<table class="${kind}">
<caption>${caption}</caption>
<thead><tr>${columns.map(({ head, width }) => html`<th scope="col"${attributes({ class: width && `ba-${width}` })}>${head}</th>`)}</tr></thead>
<tbody>
${items.map(
  (item) => html`<tr><th scope="row">${first?.cell(item)}</th>${others.map(
    ({ head, isPlain, cell }) =>
      html`<td${attributes({ 'data-head': isPlain ? null : head })}>${cell(item)}</td>`,
  )}</tr>
`,
)}</tbody>
</table>`
}
