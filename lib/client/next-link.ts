/**
 * Returns the unresolved target of the first `next` link in a Link header (RFC 8288). Ignores links with an `anchor`,
 * since they're about a different resource.
 *
 * @returns `null` if there's no such link
 */
export function findNextLink(header: string | null): string | null {
  for (const [, target = '', parameters = ''] of (header ?? '').matchAll(LINK)) {
    const found = [...parameters.matchAll(PARAMETER)].map(
      ([, name = '', quoted, token]) =>
        [name.toLowerCase(), quoted?.replaceAll(/\\(.)/g, '$1') ?? token ?? ''] as const,
    )
    if (found.some(([name]) => name === 'anchor')) continue
    // Only the first `rel` counts (RFC 8288, section 3.3). It can contain several relations.
    const relations = found.find(([name]) => name === 'rel')?.[1] ?? ''
    if (relations.toLowerCase().split(/\s+/).includes('next')) return target
  }
  return null
}

/** Matches a target in angle brackets and its parameters, up to the comma before the next link. */
const LINK = /<([^<>]*)>((?:\s*;\s*[^\s=;,]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;,"]*))?)*)/g

const PARAMETER = /;\s*([^\s=;,]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?/g
