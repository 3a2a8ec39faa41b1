import { type Content, html } from '../html.ts'

/** A text of the OpenAPI document: paragraphs, headings of the second level, and code in backticks. */
export function prose(text: string): Content {
  return text.split(/\n{2,}/).map((paragraph) =>
    paragraph.startsWith('## ')
      ? html`<h2>${paragraph.slice(3)}</h2>
`
      : html`<p>${inlineProse(paragraph)}</p>
`,
  )
}

/** A paragraph of the document as markup, without the element around the paragraph. */
export function inlineProse(text: string): Content {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))
}
