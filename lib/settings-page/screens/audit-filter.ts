import { AUDIT_ACTIONS, type AuditAction } from '../../access/audit.ts'
import { isStorable } from '../../base/fields.ts'
import type { Context } from '../context.ts'
import { isFiltered, readId } from '../form-values.ts'
import { type Html, html } from '../html.ts'
import { filterForm, input, select } from '../views/form.ts'
import { actionText } from './audit-entries.ts'
import { momentsOf, type Period, periodFields, readPeriod } from './period.ts'

/** The filter of the audit log as the URL has it; empty texts select all. */
export interface AuditLogFilter extends Period {
  readonly action: AuditAction | ''
  readonly actor: string
  readonly subject: string
}

const ACTOR_MAX = 200

/** Reads the filter of a URL; values that cannot be used count as absent. */
export function readAuditFilter(query: URLSearchParams): AuditLogFilter {
  const text = (name: string): string => query.get(name)?.trim() ?? ''
  const actor = query.get('actor') ?? ''
  return {
    action: AUDIT_ACTIONS.find((action) => action === text('action')) ?? '',
    actor: isStorable(actor) && [...actor].length <= ACTOR_MAX ? actor : '',
    subject: readId(text('subject')),
    ...readPeriod(text),
  }
}

/** The filter as the settings take it. */
export function toAuditQuery({ action, actor, subject, ...period }: AuditLogFilter, now: number) {
  return {
    ...(action !== '' && { action }),
    ...(actor !== '' && { actor }),
    ...(subject !== '' && { subjectId: subject }),
    ...momentsOf(period, now),
  }
}

/**
 * The form of the filter. The subject comes by a link beside an entry: a list of all keys that ever were would have no end.
 *
 * @param names of subjects by id
 */
export function auditFilterForm(
  context: Context,
  filter: AuditLogFilter,
  names: ReadonlyMap<string, string>,
): Html {
  const { t, link } = context
  const { action, actor, subject } = filter
  return filterForm(
    t,
    link('/audit'),
    isFiltered(filter),
    html`${select({ name: 'action', label: t`Change` }, [{ value: '', text: t`All` }, ...AUDIT_ACTIONS.map((each) => ({ value: each, text: actionText(t, each) }))], action)}
${input({ name: 'actor', label: t`Who (the whole name)` }, { value: actor, autocomplete: 'off', spellcheck: 'false', size: 18 })}
${periodFields(context, filter)}${
  subject !== '' &&
  html`<input type="hidden" name="subject" value="${subject}">
<p class="ba-lead">${t`Only changes of`} ${names.get(subject) ?? html`<code>${subject}</code>`}</p>`
}`,
  )
}
