import type { ISql } from 'postgres'
import { isStoreUnavailable } from '../../base/errors.ts'
import type { Database } from '../connection/database.ts'
import type { Statement } from '../connection/pool.ts'

/** Organizations that a call works for at once, each on a connection of its own. */
const IN_FLIGHT = 6

/** Calls a function of one organization, with the name and the arguments that `build` gives, and returns its JSON answer. */
export type CallOrganization = <Answer>(build: (sql: ISql) => Statement) => Promise<Answer>

/** Creates the call. Nothing else stands in the statement, so that the organization's node gets it whole. */
export function callOrganization(database: Database): CallOrganization {
  return async <Answer>(build: (sql: ISql) => Statement) => {
    const [answer] = await database.row(
      (sql, answerTag) => sql`select answer::text, ${answerTag} from ${build(sql)} as answer`,
    )
    return JSON.parse(answer ?? 'null') as Answer
  }
}

/** Groups items by organization, in the given order. */
export function groupByOrganization<Item extends { readonly organizationId: string }>(
  items: readonly Item[],
): readonly (readonly [organizationId: string, own: readonly Item[]])[] {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const own = groups.get(item.organizationId)
    if (own) own.push(item)
    else groups.set(item.organizationId, [item])
  }
  return [...groups]
}

/**
 * Works on several items at once. An item fails alone if the store is unavailable for it: its node does not answer.
 *
 * @param options.mayFailWhole true: without an error also if no item has an answer
 * @returns the items with an answer, in the given order
 * @throws the first error of another kind; the error of an item if no item has an answer
 */
export async function forEach<Item, Answer>(
  items: readonly Item[],
  work: (item: Item) => Promise<Answer>,
  { mayFailWhole = false } = {},
): Promise<readonly { readonly item: Item; readonly answer: Answer }[]> {
  const answers: ({ readonly item: Item; readonly answer: Answer } | undefined)[] = []
  const errors: unknown[] = []
  let place = 0

  async function workInTurn(): Promise<void> {
    while (place < items.length) {
      const own = place++
      const item = items[own] as Item
      try {
        answers[own] = { item, answer: await work(item) }
      } catch (error) {
        errors.push(error)
      }
    }
  }

  await Promise.all(Array.from({ length: Math.min(IN_FLIGHT, items.length) }, workInTurn))
  const found = answers.filter((one) => one !== undefined)
  const fatal = errors.find((error) => !isStoreUnavailable(error))
  if (fatal !== undefined) throw fatal
  if (found.length === 0 && errors.length > 0 && !mayFailWhole) throw errors[0]
  return found
}
