import { attributes, type Content, type Html, html } from '../html.ts'

/** A table column. */
export interface Column<Item> {
  readonly head: string
  /** If `true`, the narrow layout shows the head beside the cell. Defaults to `true` in tables and `false` in lists. */
  readonly isHeadShown?: boolean
  /** Shown after the head if JavaScript is unavailable, for example the time zone. */
  readonly note?: string
  /** The width in a list, 8, 10.5 or 18 rem. By default, these columns share the rest of the line. */
  readonly width?: 'small' | 'medium' | 'large'
  cell(item: Item): Content
}

/**
 * Renders a list with one line for each item. The narrow layout has two lines: the first and the last column, then the others. Long
 * values are cut because the first column links to a page that shows them in full.
 */
export function lines<Item>(caption: string, columns: readonly Column<Item>[], items: readonly Item[]): Html {
  const plain = columns.map((column) => ({ isHeadShown: false, ...column }))
  return table(caption, plain, items, 'ba-table ba-lines')
}

/**
 * Renders a table whose first column names the row. Several browsers drop the table roles in the narrow layout, where each row is a
 * list. The script adds them because they would be a seventh of each row's markup.
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
<thead><tr>${columns.map(({ head, note, width }) => html`<th scope="col"${attributes({ class: width && `ba-${width}` })}>${head}${note && html`<noscript> (${note})</noscript>`}</th>`)}</tr></thead>
<tbody>
${items.map(
  (item) => html`<tr><th scope="row">${first?.cell(item)}</th>${others.map(
    ({ head, isHeadShown = true, cell }) =>
      html`<td${attributes({ 'data-head': isHeadShown && head })}>${cell(item)}</td>`,
  )}</tr>
`,
)}</tbody>
</table>`
}
