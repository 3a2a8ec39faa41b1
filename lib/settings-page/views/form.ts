import type { Context } from '../context.ts'
import { type Attributes, attributes, type Content, type Html, html } from '../html.ts'
import type { Texts } from '../texts.ts'

/** The faults of a form's fields, by the name of the field. */
export type Problems = Readonly<Record<string, string>>

/** A field with a label. */
export interface Field {
  readonly name: string
  readonly label: string
  readonly hint?: string
  readonly problems?: Problems
}

/** A form that posts. Hidden values come first, the button last. Every form carries the stamp of its page. */
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
 * A form that filters a list: it sends a GET, so that every view of the list has a URL. The script sends it with each change, and
 * puts the answer's list after the form.
 */
export function filterForm(t: Texts, action: string, isFiltered: boolean, fields: Content): Html {
  return html`<form class="ba-filters" method="get" action="${action}" role="search" aria-label="${t`Filter`}">
${fields}
<button class="ba-button">${t`Apply`}</button>
<a class="ba-quiet-link" href="${action}" data-clear${attributes({ hidden: !isFiltered })}>${t`Clear filters`}</a>
</form>`
}

/** A form around a list, for an act on the selected rows. The script shows the box that selects all. */
export function selectionForm(
  { stamp }: Pick<Context, 'stamp'>,
  action: string,
  verb: string,
  all: string,
  list: Content,
): Html {
  return html`<form method="post" action="${action}">${hiddenFields(stamp)}
<p class="ba-acts"><label class="ba-choice" data-all hidden><input type="checkbox"> <span>${all}</span></label><button class="ba-button">${verb}</button></p>
${list}</form>`
}

/** A form that is a button alone. */
export function buttonForm({ stamp }: Pick<Context, 'stamp'>, action: string, text: string): Html {
  return html`<form method="post" action="${action}">${hiddenFields(stamp)}<button class="ba-button">${text}</button></form>`
}

function hiddenFields(values: Readonly<Record<string, string>>): Content {
  return Object.entries(values).map(
    ([name, value]) => html`<input type="hidden"${attributes({ name, value })}>`,
  )
}

/** An input of a single line. */
export function input(field: Field, all: Attributes): Html {
  const { name, label } = field
  return html`<div class="ba-field"><label for="${name}">${label}</label>${explanations(field)}
<input class="ba-input" id="${name}" name="${name}"${attributes({ ...described(field), ...all })}></div>`
}

/** An option of a select, a group of radio buttons or of checkboxes. */
export interface Choice {
  readonly value: string
  readonly text: string
}

/** A list with one choice. */
export function select(field: Field, choices: readonly Choice[], chosen: string | null): Html {
  const { name, label } = field
  return html`<div class="ba-field"><label for="${name}">${label}</label>${explanations(field)}
<select class="ba-input" id="${name}" name="${name}"${attributes(described(field))}>${choices.map(
    ({ value, text }) => html`<option${attributes({ value, selected: value === chosen })}>${text}</option>`,
  )}</select></div>`
}

/** Radio buttons. The first has the field's own id, because the summary of errors links to that id. */
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

/** A group of fields under a legend. */
export function fieldset(field: Field, content: Content): Html {
  return html`<fieldset class="ba-field"${attributes(described(field))}><legend>${field.label}</legend>${explanations(field)}${content}</fieldset>`
}

/** A box to tick. */
export function checkbox(all: Attributes, label: Content): Html {
  return html`<label class="ba-choice"><input type="checkbox"${attributes(all)}> <span>${label}</span></label>`
}

/** Lists the faults of a form, above it, with a link to each field. */
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
