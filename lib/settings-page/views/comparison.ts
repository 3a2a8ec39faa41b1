import type { Html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { table } from './table.ts'

/** A field with its current value and the submitted value. */
export type Compared = readonly [field: string, present: string, yours: string]

/** Shows the submitted values next to the current ones, which have changed since the form was rendered. */
export function comparison(t: Texts, fields: readonly Compared[]): Html {
  return table<Compared>(
    t`Current values and yours`,
    [
      { head: t`Field`, cell: ([field]) => field },
      { head: t`Current`, cell: ([, present]) => present || t`None` },
      { head: t`Yours`, cell: ([, , yours]) => yours || t`None` },
    ],
    fields.filter(([, present, yours]) => present !== yours),
  )
}
