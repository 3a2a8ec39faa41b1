import {
  hasSameLimits,
  type JudgedColumn,
  type JudgedValues,
  KEY,
  KEY_COLUMNS,
  type OwnLimits,
} from './admission.ts'
import { defineWrite, type Reserve, type WriteParts, type WriteStatements } from './key-reservation.ts'

/** The values of a write that judges its request. */
export interface AdmittedValues extends JudgedValues, OwnLimits {
  /** False if no limits are asked for. */
  readonly isLimited: string
}

/** The columns of the judgement. `hasSameLimits` is false if the limits have changed since the token was taken. */
export type AdmittedColumn = JudgedColumn | 'hasSameLimits'

/**
 * Builds the statements of a write that also judge its request, for which a token is at hand: nothing is written unless the
 * key is in force and has the scope, and the limits are those under which the token was taken.
 *
 * @param parts see {@link defineWrite}
 */
export function defineAdmittedWrite<Values, Column extends string = never>(
  parts: (reserve: Reserve) => WriteParts<Column>,
): WriteStatements<Values & AdmittedValues, Column | AdmittedColumn> {
  return defineWrite((reserve) => {
    const { steps = [], answer } = parts(({ condition = 'true', reply } = {}) =>
      reserve({ condition: `exists (select 1 from admitted) and ${condition}`, ...(reply ? { reply } : {}) }),
    )
    return {
      steps: [
        `key as (
          select found.*, @isLimited::text = 'false' or (
            ${hasSameLimits('per_second', 'burst', 'organization_per_second', 'organization_burst')}
          ) as has_same_limits
          from (${KEY}) as found
        )`,
        'admitted as (select 1 as one from key where has_scope and has_same_limits)',
        ...steps,
      ],
      answer: { ...answer, ...KEY_COLUMNS, hasSameLimits: 'key.has_same_limits::text' },
      from: 'from (values (1)) as always (one) left join key on true',
    }
  })
}
