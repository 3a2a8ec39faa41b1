import type { FormFields } from '../../http/body.ts'
import { choiceOf } from '../form-values.ts'
import type { Texts } from '../texts.ts'
import type { Choice } from '../views/form.ts'

const HOUR_MS = 60 * 60 * 1000
const OVERLAPS = { now: 0, '1h': HOUR_MS, '24h': 24 * HOUR_MS, '7d': 7 * 24 * HOUR_MS } as const

/** How long a rotated key or secret may stay valid. */
export function overlapChoices(t: Texts): readonly Choice[] {
  return [
    { value: 'now', text: t`Immediately` },
    { value: '1h', text: t`In 1 hour` },
    { value: '24h', text: t`In 24 hours` },
    { value: '7d', text: t`In 7 days` },
  ]
}

/** Parses the choice in ms. Defaults to 24 hours. */
export function readOverlap(form: FormFields): number {
  return OVERLAPS[choiceOf(form, 'overlap', Object.keys(OVERLAPS) as (keyof typeof OVERLAPS)[]) ?? '24h']
}
