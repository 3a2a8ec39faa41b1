import { RECORD_TABLES } from '../../resources/records.ts'
import { capital } from '../../resources/route.ts'
import type { Context } from '../context.ts'
import { type Content, html } from '../html.ts'

/** Names of record types by ID prefix, for example `Invoice` for `inv`. */
const TYPES: ReadonlyMap<string | undefined, string> = new Map(
  Object.entries(RECORD_TABLES).map(([kind, { idKind }]) => [idKind, capital(kind)]),
)

/** Renders a record's type and ID as a link to its events. @param id ID of the record; `null` if there is none */
export function recordLink({ t, link }: Pick<Context, 't' | 'link'>, id: string | null): Content {
  const type = TYPES.get(id?.split('_', 1)[0])
  return (
    id !== null &&
    html`<a href="${link('/events', { record: id })}">${type && `${t.word(type)} `}<code>${id}</code></a>`
  )
}
