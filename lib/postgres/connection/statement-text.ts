import type { ISql } from 'postgres'
import type { SqlParameter } from '../drivers/sql-transaction.ts'
import type { Statement } from './pool.ts'

// Statements are written with the template of postgres.js. This template takes the same pieces (values, fragments, and strings by
// `unsafe`) and returns a string with numbered parameters, which any driver can send.

/** A statement as a string. */
export interface StatementText {
  /** The SQL text, with the parameters `$1`, `$2` … */
  readonly text: string
  readonly parameters: readonly SqlParameter[]
}

/** A piece of a statement: the strings between the values, or one string with numbered parameters. */
interface Piece {
  readonly texts: readonly string[]
  readonly values: readonly unknown[]
  /** True if the string numbers its own parameters. */
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

/** The template, with the type of the driver's: statements use values, fragments and `unsafe`, and nothing else of it. */
export const textTemplate: ISql = Object.assign(tag, { unsafe }) as unknown as ISql

/** Renders a statement that was built with {@link textTemplate}. */
export function renderStatement(statement: Statement): StatementText {
  const root: unknown = statement
  if (!isPiece(root)) throw new TypeError('Cannot render the statement because another template has built it')
  if (root.isNumbered) return { text: root.texts.join(''), parameters: root.values as SqlParameter[] }
  const parameters: SqlParameter[] = []
  return { text: render(root, parameters), parameters }
}

function render({ texts, values }: Piece, parameters: SqlParameter[]): string {
  const rendered = values.map((value) => {
    if (isPiece(value)) return render(value, parameters)
    return `$${parameters.push(value as SqlParameter)}`
  })
  return texts.map((text, index) => `${text}${rendered[index] ?? ''}`).join('')
}
