import type { Ability } from './access.ts'
import type { Frame } from './context.ts'

/** A part of the page with a place in the navigation. */
export interface Section {
  readonly path: string
  readonly text: string
}

/** Lists the sections that a person may see. */
export function sectionsFor({ access, t, reference }: Frame): readonly Section[] {
  const all: readonly (Section & { readonly ability: Ability | null })[] = [
    { path: '/', text: t`Overview`, ability: null },
    { path: '/keys', text: t`API keys`, ability: 'keys:read' },
    { path: '/endpoints', text: t`Webhook endpoints`, ability: 'endpoints:read' },
    { path: '/deliveries', text: t`Deliveries`, ability: 'deliveries:read' },
    { path: '/audit', text: t`Audit log`, ability: 'audit:read' },
    { path: '/reference', text: t`Reference`, ability: null },
  ]
  // Without a session there is no section.
  if (access.organizationId === '') return []
  return all.filter(
    ({ path, ability }) =>
      (ability === null || access.can(ability)) && (path !== '/reference' || reference !== null),
  )
}
