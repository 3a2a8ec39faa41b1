/**
 * Finds the target of the first link with the relation `next` in a Link header (RFC 8288), as written: relative to the URL of
 * the request. Links with an `anchor` speak about another resource and are passed over.
 *
 * @returns null without such a link
 */
export function findNextLink(header: string | null): string | null {
  for (const [, target = '', parameters = ''] of (header ?? '').matchAll(LINK)) {
    const found = [...parameters.matchAll(PARAMETER)].map(
      ([, name = '', quoted, token]) =>
        [name.toLowerCase(), quoted?.replaceAll(/\\(.)/g, '$1') ?? token ?? ''] as const,
    )
    if (found.some(([name]) => name === 'anchor')) continue
    // The first `rel` counts (RFC 8288, 3.3), and holds one relation or several.
    const relations = found.find(([name]) => name === 'rel')?.[1] ?? ''
    if (relations.toLowerCase().split(/\s+/).includes('next')) return target
  }
  return null
}

/** A target in angle brackets, and the parameters up to the comma before the next link. */
const LINK = /<([^<>]*)>((?:\s*;\s*[^\s=;,]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;,"]*))?)*)/g

const PARAMETER = /;\s*([^\s=;,]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?/g
