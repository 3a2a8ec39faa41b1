import { ALREADY_EXISTS, BusinessApiError } from '../../base/errors.ts'
import type { Context, ScreenPage } from '../context.ts'
import { html } from '../html.ts'
import { buttonLink } from './link.ts'
import { notice } from './notice.ts'

/** Renders the page for a form that was submitted twice; returns `null` for any other error. */
export function alreadyMade(
  error: unknown,
  { t, link }: Context,
  kind: 'key' | 'endpoint',
): ScreenPage | null {
  if (!(error instanceof BusinessApiError && error.code === ALREADY_EXISTS)) return null
  const id = error.record && 'id' in error.record ? String(error.record.id) : null
  const [title, text, root] =
    kind === 'key'
      ? ([
          t`API key already created`,
          t`You can view a key only once. Rotate it to get a new one.`,
          '/keys',
        ] as const)
      : ([
          t`Already saved`,
          t`You can view a signing secret only once. Rotate it to get a new one.`,
          '/endpoints',
        ] as const)
  const content = html`${notice('wait', text, html`<p>${t`Resubmitting the form changed nothing.`}</p>`)}
<p>${buttonLink(link(id === null ? root : `${root}/${id}`), t`Continue`, 'main')}</p>`
  return { title, content, status: 409 }
}
