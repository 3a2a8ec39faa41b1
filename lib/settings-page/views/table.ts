import { attributes, type Content, type Html, html } from '../html.ts'

/** A column of a table. */
export interface Column<Item> {
  readonly head: string
  /** True for cells that need no head: the narrow layout shows the cell alone. Default false. */
  readonly isPlain?: boolean
  cell(item: Item): Content
}

/**
 * A table whose first column names the row. The narrow layout shows each row as a list, and several browsers then drop the
 * roles of a table. The script adds the roles again, because in the markup they would be a seventh of each row.
 */
export function table<Item>(caption: string, columns: readonly Column<Item>[], items: readonly Item[]): Html {
  const [first, ...others] = columns
  return html`<table class="ba-table">
<caption>${caption}</caption>
<thead><tr>${columns.map(({ head }) => html`<th scope="col">${head}</th>`)}</tr></thead>
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
