import { type Content, html } from '../html.ts'
import { table } from './table.ts'

/** A text of the OpenAPI document: paragraphs, headings of the second level, tables, and code in backticks. */
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

/** A table of Markdown: a line of heads, a line of dashes, the rows. */
function tableOf(text: string, caption: string): Content {
  const [heads = [], , ...rows] = text.split('\n').map((line) => line.slice(2, -2).split(' | '))
  const columns = heads.map((head, index) => ({
    head,
    cell: (row: readonly string[]): Content => inlineProse(row[index] ?? ''),
  }))
  return table(caption, columns, rows)
}

/** A paragraph of the document as markup, without the element around the paragraph. */
export function inlineProse(text: string): Content {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))
}
