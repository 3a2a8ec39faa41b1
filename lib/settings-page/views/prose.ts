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

/** One paragraph of such a text, without its element. */
export function inlineProse(text: string): Content {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))
}
