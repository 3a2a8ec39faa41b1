import type { ISql } from 'postgres'
import type { SqlParameter } from '../drivers/sql-transaction.ts'
import type { Statement } from './pool.ts'

// Our statements are written with the postgres.js template. The template in this file accepts the same pieces (values,
// fragments, arrays of fragments and `unsafe` strings) but produces a string with numbered parameters that any driver
// can send.

/** A rendered statement. */
export interface StatementText {
  /** SQL with the placeholders `$1`, `$2` … */
  readonly text: string
  readonly parameters: readonly SqlParameter[]
}

/** Part of a statement: the strings between the values, or a single string with numbered parameters. */
interface Piece {
  readonly texts: readonly string[]
  readonly values: readonly unknown[]
  readonly isNumbered: boolean
}

const pieces = new WeakSet<object>()

function piece(given: Piece): Piece {
  pieces.add(given)
  return given
}

function isPiece(value: unknown): value is Piece {
  return typeof value === 'object' && value !== null && pieces.has(value)
}

function tag(texts: TemplateStringsArray, ...values: readonly unknown[]): Piece {
  return piece({ texts, values, isNumbered: false })
}

function unsafe(text: string, parameters: readonly unknown[] = []): Piece {
  return piece({ texts: [text], values: parameters, isNumbered: true })
}

/** Has the type of the driver's template, but supports only what we use. */
export const textTemplate: ISql = Object.assign(tag, { unsafe }) as unknown as ISql

/** Renders a statement built with {@link textTemplate}. */
export function renderStatement(statement: Statement): StatementText {
  const root: unknown = statement
  if (!isPiece(root)) throw new TypeError('Cannot render the statement because another template has built it')
  if (root.isNumbered) return { text: root.texts.join(''), parameters: root.values as SqlParameter[] }
  const parameters: SqlParameter[] = []
  return { text: render(root, parameters), parameters }
}

function render({ texts, values }: Piece, parameters: SqlParameter[]): string {
  const rendered = values.map((value): string => {
    if (isPiece(value)) return render(value, parameters)
    if (Array.isArray(value)) return value.map((each) => render(each, parameters)).join('')
    return `$${parameters.push(value as SqlParameter)}`
  })
  return texts.map((text, index) => `${text}${rendered[index] ?? ''}`).join('')
}
