import type { Context } from '../context.ts'
import { type Attributes, attributes, type Content, type Html, html } from '../html.ts'
import type { PluralForms, Texts } from '../texts.ts'

/** Error messages by field name. */
export type Problems = Readonly<Record<string, string>>

/** A labelled form field. */
export interface Field {
  readonly name: string
  readonly label: string
  readonly hint?: string
  readonly problems?: Problems
}

/** Renders a POST form: hidden fields first, buttons last. Every form includes the page's stamp. */
export function form(
  { stamp }: Pick<Context, 'stamp'>,
  action: string,
  hidden: Readonly<Record<string, string>>,
  content: Content,
  buttons: Content,
): Html {
  return html`<form class="ba-form" method="post" action="${action}" novalidate>
${hiddenFields({ ...stamp, ...hidden })}
${content}
<p class="ba-buttons">${buttons}</p>
</form>`
}

/**
 * Renders a filter form. It submits a GET, so every view of the list has a URL. The script submits it after each change and replaces
 * only the list.
 */
export function filterForm(t: Texts, action: string, isFiltered: boolean, fields: Content): Html {
  return html`<form class="ba-filters" method="get" action="${action}" role="search" aria-label="${t`Filter`}">
${fields}
<button class="ba-button">${t`Apply`}</button>
<a class="ba-quiet-link" href="${action}" data-clear${attributes({ hidden: !isFiltered })}>${t`Clear filters`}</a>
</form>`
}

/** Renders a form around a list, for an action on selected rows. The script shows Select all and counts on the button. */
export function selectionForm(
  { stamp, t }: Pick<Context, 'stamp' | 't'>,
  action: string,
  verbs: PluralForms & { readonly none: string },
  list: Content,
): Html {
  return html`<form method="post" action="${action}">${hiddenFields(stamp)}
<p class="ba-acts"><label class="ba-choice" data-all hidden><input type="checkbox"> <span>${t`Select all`}</span></label><button class="ba-button"${attributes({ 'data-count': JSON.stringify(verbs) })}>${verbs.none}</button></p>
${list}</form>`
}

/** Renders a form that consists of one button. */
export function buttonForm({ stamp }: Pick<Context, 'stamp'>, action: string, text: string): Html {
  return html`<form method="post" action="${action}">${hiddenFields(stamp)}<button class="ba-button">${text}</button></form>`
}

function hiddenFields(values: Readonly<Record<string, string>>): Content {
  return Object.entries(values).map(
    ([name, value]) => html`<input type="hidden"${attributes({ name, value })}>`,
  )
}

/** Renders a single-line input. */
export function input(field: Field, all: Attributes): Html {
  const { name, label } = field
  return html`<div class="ba-field"><label for="${name}">${label}</label>${explanations(field)}
<input class="ba-input" id="${name}" name="${name}"${attributes({ ...described(field), ...all })}></div>`
}

/** An option of a select, radio group or checkbox group. */
export interface Choice {
  readonly value: string
  readonly text: string
}

/** Renders a select. */
export function select(field: Field, choices: readonly Choice[], chosen: string | null): Html {
  const { name, label } = field
  return html`<div class="ba-field"><label for="${name}">${label}</label>${explanations(field)}
<select class="ba-input" id="${name}" name="${name}"${attributes(described(field))}>${choices.map(
    ({ value, text }) => html`<option${attributes({ value, selected: value === chosen })}>${text}</option>`,
  )}</select></div>`
}

/** Renders radio buttons. The first has the field's ID because the error summary links to it. */
export function radios(
  field: Field,
  choices: readonly Choice[],
  chosen: string | null,
  more: Content = null,
): Html {
  const { name } = field
  return fieldset(
    field,
    html`${choices.map(
      ({ value, text }, index) =>
        html`<label class="ba-choice"><input type="radio"${attributes({ id: index === 0 ? name : null, name, value, checked: value === chosen })}> <span>${text}</span></label>`,
    )}${more}`,
  )
}

/** Renders a fieldset with a legend. */
export function fieldset(field: Field, content: Content): Html {
  return html`<fieldset class="ba-field"${attributes(described(field))}><legend>${field.label}</legend>${explanations(field)}${content}</fieldset>`
}

/** Renders a checkbox. */
export function checkbox(all: Attributes, label: Content): Html {
  return html`<label class="ba-choice"><input type="checkbox"${attributes(all)}> <span>${label}</span></label>`
}

/** Renders the error summary above a form, with a link to each field. */
export function problemSummary(title: string, problems: Problems): Content {
  const entries = Object.entries(problems)
  if (entries.length === 0) return null
  return html`<div class="ba-notice ba-bad" role="alert" tabindex="-1" data-focus><div><p><strong>${title}</strong></p>
<ul>${entries.map(([name, text]) => html`<li><a href="#${name}">${text}</a></li>`)}</ul></div></div>`
}

function explanations({ name, hint, problems }: Field): Content {
  const problem = problems?.[name]
  return [
    hint !== undefined && html`<p class="ba-hint" id="${name}-hint">${hint}</p>`,
    problem !== undefined && html`<p class="ba-problem" id="${name}-problem">${problem}</p>`,
  ]
}

function described({ name, hint, problems }: Field): Attributes {
  const isWrong = problems?.[name] !== undefined
  const ids = [hint !== undefined && `${name}-hint`, isWrong && `${name}-problem`].filter(
    (id) => id !== false,
  )
  return { 'aria-describedby': ids.join(' ') || null, 'aria-invalid': isWrong ? 'true' : null }
}
