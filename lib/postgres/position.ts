import type { Since } from '../access/admission.ts'
import { isIsoMoment } from '../base/fields.ts'
import type { ChangesValues, TimesValues } from './statements/changes.ts'

/** The start of a page of changes, in one of two orders. */
export type Beginning =
  | { readonly order: 'changes'; readonly values: ChangesValues }
  | { readonly order: 'times'; readonly values: TimesValues }

// Positions as written by the statements. A 19-digit number always fits into a transaction ID.
const IN_CHANGES = /^c (-?\d{1,19}) (\d{1,19}) (\d{1,19}|-) (\d{1,19}|-) ([^\0]{0,256})$/s
const IN_TIMES = /^t (-?\d{1,19}) ([1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (\d{1,19}) ([^\0]{0,256})$/s

/** Starts a pass over all records. */
export const EVERYTHING: Beginning = fromTime('-infinity')

/** Returns where a list of changes starts. Starts over with all records if the position is invalid. */
export function readBeginning(since: Since): Beginning {
  return 'time' in since ? fromTime(since.time) : (readPosition(since.position) ?? EVERYTHING)
}

function fromTime(time: string): Beginning {
  return { order: 'times', values: { time, id: '', tableIdentity: null, floor: null } }
}

function readPosition(position: string): Beginning | undefined {
  const [, tableIdentity = '', xid = '', floor = '-', ceiling = '-', id = ''] =
    IN_CHANGES.exec(position) ?? []
  if (tableIdentity !== '') {
    const values = { tableIdentity, xid, id, floor: orNull(floor), ceiling: orNull(ceiling) }
    return { order: 'changes', values }
  }
  const [, owner, time = '', from = '', lastId = ''] = IN_TIMES.exec(position) ?? []
  if (owner === undefined || !isIsoMoment(time)) return undefined
  return { order: 'times', values: { tableIdentity: owner, time, floor: from, id: lastId } }
}

function orNull(text: string): string | null {
  return text === '-' ? null : text
}
