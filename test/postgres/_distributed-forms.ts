// The forms of SQL that a distributed PostgreSQL (Citus) refuses, or carries out on all nodes, found in the texts of statements. A
// text is read as words and brackets, not as a full grammar: enough for the forms, and each form has an example in the tests.

/** A form that a text uses. */
export type RefusedForm =
  | 'array slice in SET'
  | 'simple CASE'
  | 'SELECT without columns'
  | 'function of the session in DO UPDATE'
  | 'function of the session in CASE or COALESCE of SET'
  | 'table without a constant organization'
  | 'outer join LATERAL from a set of records to a table'
  | 'set of records in UPDATE'
  | 'row count of an INSERT with ON CONFLICT'
  | 'table of the catalogue beside a table'

/** The facts of a database that the search needs. */
export interface Facts {
  /** Tables that are distributed by organization_id, without the schema. */
  readonly tables: ReadonlySet<string>
  /** Functions that are not immutable, without the schema. */
  readonly sessionFunctions: ReadonlySet<string>
}

type Token = string | Group
/** The tokens between two brackets. */
interface Group {
  readonly bracket: '(' | '['
  readonly tokens: readonly Token[]
}

const TOKEN = /--[^\n]*|\/\*[\s\S]*?\*\/|E?'(?:[^']|'')*'|"[^"]*"|\$\d+|[\w.]+|::|[()[\]]|[^\s\w]/g

/** Finds the refused forms in a text of one or more statements. */
export function findRefusedForms(text: string, facts: Facts): readonly RefusedForm[] {
  const found = new Set<RefusedForm>()
  const statements = split(parse(text), ';')
  for (const [place, statement] of statements.entries()) {
    const previous = statements[place - 1] ?? []
    if (statement.includes('row_count') && previous.includes('insert') && previous.includes('conflict')) {
      found.add('row count of an INSERT with ON CONFLICT')
    }
    for (const level of levelsOf(statement)) inspect(level, facts, found)
    const names = allWords(statement)
    const hasTable = names.some((name) => isTable(name, facts))
    const hasCatalogue = levelsOf(statement).some((level) =>
      level.some((token, at) => isWord(token, /^pg_catalog\.pg_\w+$/) && isSource(level, at)),
    )
    if (hasTable && hasCatalogue) found.add('table of the catalogue beside a table')
  }
  return [...found]
}

function inspect(level: readonly Token[], facts: Facts, found: Set<RefusedForm>): void {
  level.forEach((token, at) => {
    const next = level[at + 1]
    if (token === 'case' && next !== 'when' && level.slice(at).includes('end')) found.add('simple CASE')
    if (token === 'select' && next === 'from') found.add('SELECT without columns')
    if (
      isWord(token, RECORDS) &&
      level.some(
        (word, place) =>
          word === 'lateral' && level[place - 2] === 'left' && mentionsTable(level[place + 1], facts),
      )
    ) {
      found.add('outer join LATERAL from a set of records to a table')
    }
    if (isTable(token, facts) && isSource(level, at) && !hasConstantOrganization(level, at)) {
      found.add('table without a constant organization')
    }
    if (token === 'set' && isUpdate(level, at)) inspectSet(level, at, facts, found)
  })
}

function inspectSet(level: readonly Token[], at: number, facts: Facts, found: Set<RefusedForm>): void {
  const isConflict = level[at - 1] === 'update' && level[at - 2] === 'do'
  const rest = level.slice(at + 1)
  const end = rest.findIndex(
    (token) => typeof token === 'string' && (isConflict ? ['returning'] : END_OF_SET).includes(token),
  )
  const assignments = end === -1 ? rest : rest.slice(0, end)
  const hasSlice = (tokens: readonly Token[]): boolean =>
    tokens.some(
      (token) =>
        typeof token === 'object' &&
        ((token.bracket === '[' && token.tokens.includes(':')) || hasSlice(token.tokens)),
    )
  if (hasSlice(assignments)) found.add('array slice in SET')
  if (isConflict && callsSession(assignments, facts)) found.add('function of the session in DO UPDATE')
  if (!isConflict && conditionalParts(assignments).some((part) => callsSession(part, facts))) {
    found.add('function of the session in CASE or COALESCE of SET')
  }
  if (end !== -1 && rest[end] === 'from' && isWord(rest[end + 1], RECORDS))
    found.add('set of records in UPDATE')
}

const RECORDS = /jsonb?_to_recordset$/
const END_OF_SET = ['from', 'where', 'returning']

/** Returns whether `set` belongs to an update of a table, and not to a setting. */
function isUpdate(level: readonly Token[], at: number): boolean {
  return level.slice(Math.max(0, at - 4), at).includes('update')
}

/** Returns the parts of assignments inside `case … end` and `coalesce(…)`. */
function conditionalParts(tokens: readonly Token[]): (readonly Token[])[] {
  return tokens.flatMap((token, at) => {
    const next = tokens[at + 1]
    if (token === 'case') return [tokens.slice(at, tokens.indexOf('end', at))]
    if (token === 'coalesce' && typeof next === 'object') return [next.tokens]
    return typeof token === 'object' ? conditionalParts(token.tokens) : []
  })
}

function callsSession(tokens: readonly Token[], facts: Facts): boolean {
  return tokens.some((token, at) => {
    if (typeof token === 'object') return callsSession(token.tokens, facts)
    const next = tokens[at + 1]
    const isCall = typeof next === 'object' && next.bracket === '('
    return isCall && facts.sessionFunctions.has(token.replace(/^(pg_catalog|business_api)\./, ''))
  })
}

/** Returns whether a name stands where a table is read or changed. */
function isSource(level: readonly Token[], at: number): boolean {
  const before = level[at - 1]
  const isInsert = before === 'into'
  const isCall = typeof level[at + 1] === 'object'
  return !isInsert && !isCall && ['from', 'join', 'using', 'update', ','].includes(String(before))
}

/** Returns whether the query of a table compares the organization of the table with a value. */
function hasConstantOrganization(level: readonly Token[], at: number): boolean {
  const next = level[at + 1] === 'as' ? level[at + 2] : level[at + 1]
  const alias = typeof next === 'string' && !NO_ALIAS.test(next) ? next : undefined
  const name = String(level[at])
  const owners = alias === undefined ? ['', `${name}.`] : [`${alias}.`, '']
  const within = (tokens: readonly Token[]): boolean =>
    tokens.some((token, place) => {
      // A condition may stand in brackets, but a query in brackets has tables of its own.
      if (typeof token === 'object') return token.tokens[0] !== 'select' && within(token.tokens)
      if (!owners.some((owner) => token === `${owner}organization_id`) || tokens[place + 1] !== '=')
        return false
      return isWord(tokens[place + 2], /^(\$\d+|'.*'|\w+)$/)
    })
  return within(level)
}

const NO_ALIAS =
  /^(where|set|on|join|left|cross|inner|order|group|limit|offset|union|returning|for|using|,|\(|;)$/

function isTable(token: Token | undefined, { tables }: Facts): boolean {
  return (
    typeof token === 'string' &&
    token.startsWith('business_api.') &&
    tables.has(token.slice('business_api.'.length))
  )
}

function mentionsTable(token: Token | undefined, facts: Facts): boolean {
  return typeof token === 'object' && allWords(token.tokens).some((word) => isTable(word, facts))
}

function isWord(token: Token | undefined, form: RegExp): boolean {
  return typeof token === 'string' && form.test(token)
}

// --- Reading ---

function parse(text: string): readonly Token[] {
  const stack: Token[][] = [[]]
  const opened: ('(' | '[')[] = []
  for (const [token] of text.matchAll(TOKEN)) {
    const top = stack.at(-1) ?? []
    if (token.startsWith('--') || token.startsWith('/*')) continue
    if (token === '(' || token === '[') {
      opened.push(token)
      stack.push([])
    } else if (token === ')' || token === ']') {
      const tokens = stack.pop() ?? []
      stack.at(-1)?.push({ bracket: opened.pop() ?? '(', tokens })
    } else top.push(/^[\w.]+$/.test(token) ? token.toLowerCase() : token)
  }
  return stack[0] ?? []
}

/** Splits tokens at a word; brackets stay whole. */
function split(tokens: readonly Token[], at: string): (readonly Token[])[] {
  const parts: Token[][] = [[]]
  for (const token of tokens) {
    if (token === at) parts.push([])
    else parts.at(-1)?.push(token)
  }
  return parts
}

/** Returns the queries of a statement, each without the queries in its brackets. The branches of a union are queries of their own. */
function levelsOf(tokens: readonly Token[]): (readonly Token[])[] {
  const inner = tokens.flatMap((token) => (typeof token === 'object' ? levelsOf(token.tokens) : []))
  return [...split(tokens, 'union'), ...inner]
}

function allWords(tokens: readonly Token[]): string[] {
  return tokens.flatMap((token) => (typeof token === 'object' ? allWords(token.tokens) : [token]))
}
