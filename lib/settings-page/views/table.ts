import { type Content, type Html, html } from '../html.ts'

/** A column of a table. */
export interface Column<Item> {
  readonly head: string
  cell(item: Item): Content
}

/**
 * A table whose first column names the row. The roles are explicit, because the narrow layout shows each row as a list and
 * browsers then forget that it is a table.
 */
export function table<Item>(caption: string, columns: readonly Column<Item>[], items: readonly Item[]): Html {
  const [first, ...others] = columns
  return html`<table class="ba-table" role="table">
<caption>${caption}</caption>
<thead role="rowgroup"><tr role="row">${columns.map(({ head }) => html`<th scope="col" role="columnheader">${head}</th>`)}</tr></thead>
<tbody role="rowgroup">
${items.map(
  (item) => html`<tr role="row"><th scope="row" role="rowheader">${first?.cell(item)}</th>${others.map(
    ({ head, cell }) => html`<td role="cell" data-head="${head}">${cell(item)}</td>`,
  )}</tr>
`,
)}</tbody>
</table>`
}
