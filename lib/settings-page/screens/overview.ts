import type { Context, Page } from '../context.ts'
import { html } from '../html.ts'
import { notice } from '../views/notice.ts'

/** `/`: what is wrong first. */
export async function show({ settings, access, t }: Context): Promise<Page> {
  await settings.overview.get(access.organizationId)
  return { title: t`Overview`, content: html`${notice('good', t`All is well`)}` }
}
