import type { Html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { table } from './table.ts'

/** A field with its present value and the value of a form. */
export type Compared = readonly [field: string, present: string, yours: string]

/** Shows the fields of a form beside the present values of the record, which has changed since the form was made. */
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
