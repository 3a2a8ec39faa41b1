import type { ApiKey } from '../../access/api-keys.ts'
import type { Context, Page, Screen } from '../context.ts'
import { textOf } from '../form-values.ts'
import { html } from '../html.ts'
import { form, input, type Problems, problemSummary } from '../views/form.ts'
import { buttonLink } from '../views/link.ts'
import { keyNameProblem, NAME_MAX } from './key-words.ts'

/** `/keys/:id/edit`: another name. The scopes of a key stay for good. */
export const naming = {
  async ask(context: Context): Promise<Page> {
    const key = await find(context)
    return showForm(context, key, key.name, {})
  },

  async act(context: Context): Promise<Screen> {
    const { settings, access, form: sent, link, t } = context
    const key = await find(context)
    const name = textOf(sent, 'name')
    const problem = keyNameProblem(t, name)
    if (problem !== null) return showForm(context, key, name, { name: problem })
    await settings.apiKeys.update(access.organizationId, key.id, { name, actor: access.actor })
    return { location: link(`/keys/${key.id}`, { done: 'renamed' }) }
  },
}

async function find({ settings, access, params }: Context): Promise<ApiKey> {
  return settings.apiKeys.get(access.organizationId, params.id ?? '')
}

function showForm({ t, link }: Context, key: ApiKey, name: string, problems: Problems): Page {
  const back = link(`/keys/${key.id}`)
  const isRefused = Object.keys(problems).length > 0
  const content = html`${problemSummary(t`Nothing was changed`, problems)}
${form(
  link(`/keys/${key.id}/edit`),
  {},
  input(
    {
      name: 'name',
      label: t`Name`,
      hint: t`What the key may do stays as it is. For other rights make another key.`,
      problems,
    },
    { value: name, maxlength: NAME_MAX, autocomplete: 'off', required: true },
  ),
  html`<button class="ba-button ba-button-main">${t`Save the name`}</button>${buttonLink(back, t`Cancel`)}`,
)}`
  return {
    title: t`Rename ${key.name}`,
    content,
    up: { href: back, text: key.name },
    ...(isRefused && { status: 422 }),
  }
}
