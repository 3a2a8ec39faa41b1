import { type Content, html } from '../html.ts'
import { table } from './table.ts'

/** Renders text of the OpenAPI document: paragraphs, second-level headings, tables and inline code. */
export function prose(text: string): Content {
  let heading = ''
  return text.split(/\n{2,}/).map((paragraph) => {
    if (paragraph.startsWith('| ')) return tableOf(paragraph, heading)
    if (!paragraph.startsWith('## ')) {
      return html`<p>${inlineProse(paragraph)}</p>
`
    }
    heading = paragraph.slice(3)
    return html`<h2>${heading}</h2>
`
  })
}

function tableOf(text: string, caption: string): Content {
  const [heads = [], , ...rows] = text.split('\n').map((line) => line.slice(2, -2).split(' | '))
  const columns = heads.map((head, index) => ({
    head,
    cell: (row: readonly string[]): Content => inlineProse(row[index] ?? ''),
  }))
  return table(caption, columns, rows)
}

/** Renders a paragraph's content without the surrounding element. */
export function inlineProse(text: string): Content {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))
}
