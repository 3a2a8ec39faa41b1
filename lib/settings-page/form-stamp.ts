import { createHash } from 'node:crypto'
import type { FormFields } from '../http/body.ts'
import type { Ability, ResolvedAccess } from './access.ts'
import type { Act, Context, Frame, ScreenPage, Seen, Show } from './context.ts'
import { textOf } from './form-values.ts'
import { html } from './html.ts'
import { lastRotation, recentChanges } from './screens/audit.ts'
import { notice } from './views/elements.ts'

// A submitted form can be stale because another tab switched the session to another organization, or because a colleague changed the
// record. Every form therefore includes the organization and the record's version as hidden fields. A form without them was written by
// hand or rendered by an earlier version of the page, so only the session counts.

/** Creates the hidden fields for a page's forms. */
export function stampOf(
  { organizationId, organizationName }: ResolvedAccess,
  version: string,
): Readonly<Record<string, string>> {
  return {
    organization: organizationId,
    ...(organizationName !== '' && { 'organization-name': organizationName }),
    ...(version !== '' && { version }),
  }
}

/** Returns whether the record has changed since the form was rendered. */
export function isStale(form: FormFields, version: string): boolean {
  const sent = textOf(form, 'version')
  return sent !== '' && sent !== version
}

/** Renders an error for a form of another organization; returns `null` if it is the session's organization. */
export function foreignForm(form: FormFields, { access, t, link }: Frame): ScreenPage | null {
  const id = form.get('organization')?.[0]
  if (id === undefined || id === access.organizationId) return null
  const theirs = nameOf(id, textOf(form, 'organization-name'))
  const ours = nameOf(access.organizationId, access.organizationName)
  return {
    title: t`Organization changed`,
    status: 409,
    content: html`${notice(
      'bad',
      t`Nothing was changed`,
      html`<p>${t`This form was opened for ${theirs}. Your session is now for ${ours}.`}</p>
<p>${t`To make the change in ${theirs}, switch back and open the form again.`}</p>`,
    )}
<p><a href="${link('/')}">${t`Go to overview`}</a></p>`,
  }
}

function nameOf(id: string, name: string): string {
  return name === '' ? id : `${name} (${id})`
}

// --- Versions ---

type ReadVersion = (
  context: Pick<Context, 'settings' | 'access'>,
  id: string,
  isEdit: boolean,
) => Promise<readonly [seen: Seen, ...facts: unknown[]]>

/** Reads the record of a form and the values that its version covers, by the first part of the path. */
const FACTS: Readonly<Record<string, ReadVersion>> = {
  keys: async ({ settings, access }, id) => {
    const [{ lastUsedAt, ...key }, { data }] = await Promise.all([
      settings.apiKeys.get(access.organizationId, id),
      recentChanges({ settings, access }, id),
    ])
    return [key, data[0]?.id]
  },

  endpoints: async (context, id, isEdit) => {
    const [{ version, state }, rotation] = await Promise.all([
      context.settings.endpoints.get(context.access.organizationId, id),
      isEdit ? undefined : lastRotation(context, id),
    ])
    return [{ version }, isEdit || rotation?.id, isEdit || state]
  },

  deliveries: async ({ settings, access }, id) => {
    const { state, finishedAt } = await settings.deliveries.get(access.organizationId, id)
    return [{}, state, finishedAt]
  },
}

/**
 * Reads the version of the record in a path. Empty if the path has no record, or if the person may not see its form.
 *
 * @param path the route's path, for example `/keys/:id/edit`
 */
export async function readVersion(
  context: Pick<Context, 'settings' | 'access' | 'params'>,
  path: string,
): Promise<{ readonly version: string; readonly seen: Seen }> {
  const [, root = ''] = path.split('/')
  const { id } = context.params
  const read = FACTS[root]
  if (id === undefined || !read || !context.access.can(`${root}:write` as Ability)) {
    return { version: '', seen: {} }
  }
  const facts = await read(context, id, path.endsWith('/edit'))
  const version = createHash('sha256').update(JSON.stringify(facts)).digest('base64url').slice(0, 16)
  return { version, seen: facts[0] }
}

/**
 * Wraps an action so that it isn't applied to a record that has changed since the form was rendered. The person sees the current record
 * and can submit again.
 */
export function unlessStale({ act, ask, isDone }: Act): Show {
  return async (context) => {
    if (!context.isStale || (await isDone?.(context))) return act(context)
    const page = await ask(context)
    if (!('content' in page)) return page
    const { t } = context
    const changed = notice(
      'wait',
      t`Changed since you opened this page. Nothing was saved.`,
      html`<p>${t`Review the current values below. To continue anyway, submit again.`}</p>`,
    )
    return { ...page, status: 409, content: [changed, page.content] }
  }
}
