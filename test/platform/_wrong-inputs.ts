import type { CallUnderTest } from './_calls.ts'

// Values that a host may pass instead of valid ones.

/** Part of every value that must not appear in a message. */
export const SECRET = 'whsec_do_not_repeat'

const NOT_TEXT = [
  null,
  17_171_717,
  true,
  [SECRET],
  { secret: SECRET },
  Symbol(SECRET),
  () => SECRET,
  17_171_717n,
]
const NO_STRINGS = [...NOT_TEXT, `${SECRET}\0`, `${SECRET}\ud800`]

function textOf(max: number): readonly unknown[] {
  return [...NO_STRINGS, '🏺'.repeat(max + 1), SECRET.repeat(max)]
}

const AMOUNTS = [
  ...[SECRET, '1', null, true, [1], { valueOf: () => 1 }, 17n],
  ...[
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    Number('1e400'),
    1e12,
    999_999_999_999_999.9,
  ],
  ...[0.0001, 0.1 + 0.2, 1.0005, 1e-7, 5e-324],
]
const MONEY = [
  ...[
    null,
    1,
    1.5,
    17n,
    [SECRET],
    true,
    SECRET,
    '',
    ' ',
    '.5',
    '5.',
    '1,5',
    '1e3',
    '+1',
    ' 1',
    '1 ',
    '٣',
    '0x10',
  ],
  ...[
    '-1',
    '-0',
    '0',
    '0.000',
    'NaN',
    'Infinity',
    '1234567890123456',
    `0.${'1'.repeat(21)}`,
    '1\0',
    '1\n',
    '--1',
  ],
]
const CURRENCIES = [...NO_STRINGS, '', 'eur', 'EU', 'EURO', 'E€R', 'EUR ', 'EUR\n', SECRET]
export const MOMENTS = [
  ...[
    null,
    17_171_717,
    true,
    [],
    {},
    SECRET,
    '',
    'tomorrow',
    '2026-01-01',
    '2026-01-01T00:00:00',
    '2026-1-1T00:00Z',
  ],
  ...[
    '2026-02-30T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-01-01T25:00:00Z',
    '2026-01-01 00:00:00Z',
    '2026-01-01T00:00Z\0',
  ],
  ...[
    '1969-12-31T23:59:59.999Z',
    '9999-12-31T23:59:59-01:00',
    '+010000-01-01T00:00:00Z',
    '2026-01-01T00:00:00+99:99',
  ],
  ...[new Date(Number.NaN), new Date(-1), new Date(8.64e15)],
]
const WORDS = [...NOT_TEXT, SECRET, '', 'ACTIVE', 'constructor', '__proto__']
const NO_IDS = NOT_TEXT

/**
 * The rule of each field in messages, and values that violate it. Rules for a single call have
 * keys like `clients.setStatus.status`.
 */
const REQUIREMENTS: Readonly<Record<string, readonly [requirement: RegExp, values: readonly unknown[]]>> = {
  name: [
    /^must (be a string of [12] to (150|200) characters|not contain NUL or a lone surrogate)$/,
    [...textOf(200), ''],
  ],
  title: [/^must (be a string of 1 to 200 characters|not contain NUL)/, [...textOf(200), '']],
  signedBy: [/^must (be a string of 1 to 200 characters|not contain NUL)/, [...textOf(200), '']],
  number: [/^must (be a string of 1 to 64 characters|not contain NUL)/, [...textOf(64), '']],
  category: [/^must (be a string of at most 80 characters|not contain NUL)/, textOf(80)],
  city: [/^must (be a string of at most 80 characters|not contain NUL)/, textOf(80)],
  phone: [/^must (be a string of at most 30 characters|not contain NUL)/, textOf(30)],
  email: [
    /^must be an email address of at most 254 characters$/,
    [...textOf(254), SECRET, 'a@b', 'a b@c.d', ''],
  ],
  total: [/^must be a (number from 0|decimal string such as)/, []],
  monthlyTotal: [
    /^must be a number from 0 to 999999999999.999 with at most three decimals$/,
    [...AMOUNTS, -0.001],
  ],
  value: [/^must be a number from 0 to 999999999999.999 with at most three decimals$/, [...AMOUNTS, -1]],
  totalRevenue: [/^must be a number from -999999999999.999 to 999999999999.999 with/, AMOUNTS],
  monthlyRevenue: [/^must be a number from -999999999999.999 to 999999999999.999 with/, AMOUNTS],
  leadScore: [
    /^must be a number from 0 to 100 with/,
    [...AMOUNTS.filter((value) => value !== null), -0.001, 100.001],
  ],
  expectedValue: [/^must be a number from 0 to/, [...AMOUNTS.filter((value) => value !== null), -1]],
  'invoices.recordPayment.amount': [
    /^must be a decimal string above zero such as "1250.000", with at most 15 digits before the point$/,
    MONEY,
  ],
  currency: [/^must be a currency code of three capital letters$/, CURRENCIES],
  dueDate: [/^must be a Date, or ISO 8601 with a time zone, from 1970 to 9999$/, MOMENTS],
  issueDate: [/^must be a Date, or ISO 8601 with a time zone, from 1970 to 9999$/, MOMENTS],
  receivedAt: [/^must be a Date, or ISO 8601 with a time zone, from 1970 to 9999$/, MOMENTS],
  signedAt: [/^must be a Date, or ISO 8601 with a time zone, from 1970 to 9999$/, MOMENTS],
  'clients.setStatus.status': [/^must be one of active, inactive$/, WORDS],
  stage: [/^must be one of new, contacted, qualified, proposal, won, lost$/, WORDS],
  billingType: [/^must be one of fixed, hourly, retainer$/, WORDS],
  businessId: [/^must be a string, the id of a business of the organization$/, NO_IDS],
  'businesses.update.businessId': [/^must be a string$/, NO_IDS],
}

/** Fields of a call that aren't in the example. */
export const MORE_FIELDS: Readonly<Record<string, readonly string[]>> = {
  'proposals.create': ['number'],
  'proposals.revise': ['currency', 'monthlyTotal'],
  'proposals.accept': ['signedAt'],
  'invoices.create': ['number', 'issueDate'],
  'invoices.issue': ['issueDate', 'dueDate'],
  'invoices.recordPayment': ['receivedAt'],
}

const OF_ID = [/^must be a string$/, NO_IDS] as const

/**
 * Returns the rule of a call's field from {@link REQUIREMENTS} or based on the example's value. Returns `undefined` if
 * the test doesn't know the field.
 */
export function requirementOf({ name, fields }: CallUnderTest, field: string) {
  const listed = REQUIREMENTS[`${name}.${field}`] ?? REQUIREMENTS[field]
  return listed ?? (field.endsWith('Id') ? OF_ID : requirementBy(fields[field]))
}

function requirementBy(example: unknown) {
  if (typeof example === 'number')
    return [/^must be a number from \S+ to \S+ with at most three decimals$/, AMOUNTS] as const
  if (typeof example !== 'string') return undefined
  if (/^\d{4}-\d\d-\d\dT/.test(example)) return REQUIREMENTS.dueDate
  const requirement = /^must (be a string of \d to \d+ characters|be one of [a-z_, ]+|not contain NUL)/
  return [requirement, [...textOf(10_000)]] as const
}

export function valuesOf(call: CallUnderTest, field: string): readonly unknown[] {
  if (field !== 'total') return requirementOf(call, field)?.[1] ?? []
  return call.name.startsWith('invoices.')
    ? MONEY.filter((value) => value !== '0' && value !== '0.000')
    : [...AMOUNTS, -1]
}

/** Values that aren't organizations. */
export const ORGANIZATIONS = [undefined, ...NO_STRINGS, '', SECRET.repeat(10), '🏺'.repeat(65)]

/** Returns the required fields of a call's example. */
export function isRequired(name: string): (field: string) => boolean {
  const optional: Record<string, readonly string[]> = {
    'businesses.create': ['category', 'city', 'email', 'phone'],
    'businesses.update': ['name'],
    'clients.create': ['category', 'city', 'email', 'phone'],
    'clients.setRevenue': ['totalRevenue', 'monthlyRevenue'],
    'leads.create': ['leadScore', 'expectedValue'],
    'proposals.create': ['monthlyTotal'],
    'proposals.revise': ['title', 'total'],
  }
  return (field) => !optional[name]?.includes(field)
}
