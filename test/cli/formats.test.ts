import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { BusinessApiError, INVALID_INPUT, storeUnavailable } from '../../lib/base/errors.ts'
import { visible } from '../../lib/base/visible-text.ts'
import {
  formatDuration,
  formatMoment,
  parseDuration,
  parseFuture,
  parsePast,
} from '../../lib/cli/durations.ts'
import { describeFailure } from '../../lib/cli/failure.ts'
import { createProgress } from '../../lib/cli/progress.ts'
import { type Column, formatDetails, formatTable } from '../../lib/cli/table.ts'
import { describeExcerpt, widthOf, wrap } from '../../lib/cli/text.ts'

test('the excerpt of a response that is not UTF-8 is marked', () => {
  assert.equal(describeExcerpt('\uFFFDPNG'), '(not UTF-8) \uFFFDPNG')
  assert.equal(describeExcerpt('café'), 'café')
})

describe('durations and moments', () => {
  test('are parsed with their unit', () => {
    const read: Record<string, number> = {
      '0': 0,
      '250ms': 250,
      '90s': 90_000,
      '30m': 1_800_000,
      '1.5h': 5_400_000,
      '7d': 604_800_000,
      '2w': 1_209_600_000,
    }
    for (const [text, ms] of Object.entries(read)) assert.equal(parseDuration(text, '--x'), ms)
    for (const text of ['', '24', 'h', '-1h', '1 h', '1y', '1e3s', '1h30m']) {
      assert.throws(() => parseDuration(text, '--x'), /--x must be a duration/)
    }
  })

  test('a time can be relative, a day in UTC, or ISO 8601 with a time zone', () => {
    assert.ok(Math.abs(parsePast('24h', '--x').getTime() - (Date.now() - 86_400_000)) < 1000)
    assert.ok(Math.abs(parseFuture('24h', '--x').getTime() - (Date.now() + 86_400_000)) < 1000)
    assert.equal(parsePast('2026-01-31', '--x').toISOString(), '2026-01-31T00:00:00.000Z')
    assert.equal(parsePast('2026-01-31T09:00:00+01:00', '--x').toISOString(), '2026-01-31T08:00:00.000Z')
    assert.equal(parsePast('2026-01-31t09:00:00z', '--x').toISOString(), '2026-01-31T09:00:00.000Z')
    for (const text of ['yesterday', '2026-13-01', '2026-02-30', '2026-01-31T09:00:00', '31.1.2026']) {
      assert.throws(() => parsePast(text, '--x'), /--x must be/)
    }
  })

  test('are formatted with up to two units', () => {
    const written: Record<string, number> = {
      '0 ms': 0,
      '12 ms': 12.3,
      '1.5 s': 1500,
      '4 min': 240_000,
      '2 h 5 min': 7_500_000,
      '3 d 4 h': 273_600_000,
      '30 d': 2_592_000_000,
    }
    for (const [text, ms] of Object.entries(written)) assert.equal(formatDuration(ms), text)
    assert.equal(formatMoment('2026-01-31T09:00:00.123Z'), '2026-01-31 09:00:00Z')
  })
})

describe('text', () => {
  test('has no effect on a terminal', () => {
    assert.equal(visible('a\x1b[2Jb\r\n\u009b\u202e'), 'a\\u{1b}[2Jb\\u{d}\\u{a}\\u{9b}\\u{202e}')
    assert.equal(visible('Écume 🏺 製陶 عربي'), 'Écume 🏺 製陶 عربي')
  })

  test('has the width shown by a terminal and is wrapped between words', () => {
    for (const [text, width] of Object.entries({ abc: 3, 'e\u0301': 1, 製陶: 4, '🏺': 2 })) {
      assert.equal(widthOf(text), width)
    }
    assert.deepEqual(wrap('one two three', 7), ['one two', 'three'])
    assert.deepEqual(wrap('製陶 製陶 a', 9), ['製陶 製陶', 'a'])
    assert.deepEqual(wrap('toolongaword a', 4), ['toolongaword', 'a'])
  })
})

describe('tables', () => {
  interface Row {
    readonly id: string
    readonly text: string
  }
  const columns: readonly Column<Row>[] = [
    { title: 'ID', value: ({ id }) => id },
    { title: 'TEXT', value: ({ text }) => text },
    { title: 'AGAIN', value: ({ text }) => text },
  ]

  test('are aligned even if characters are wide or cells are missing', () => {
    const rows = [
      { id: 'a', text: '製陶' },
      { id: 'bbb', text: '' },
    ]
    assert.equal(
      formatTable(columns, rows, Number.POSITIVE_INFINITY),
      'ID   TEXT  AGAIN\na    製陶  製陶\nbbb  -     -\n',
    )
  })

  test('continue rows on indented lines in a narrow terminal without losing anything', () => {
    const rows = [
      { id: 'endpoint.enabled', text: 'three words here' },
      { id: 'endpoint.disabled', text: '' },
    ]
    assert.equal(
      formatTable(columns, rows, 36),
      [
        'ID                 TEXT',
        '  AGAIN',
        'endpoint.enabled   three words here',
        '  three words here',
        'endpoint.disabled  -',
        '',
      ].join('\n'),
    )
    assert.equal(formatTable(columns, rows, 53).split('\n')[0], 'ID                 TEXT              AGAIN')
  })

  test('wrap a cell that is wider than the terminal, but keep a long word whole', () => {
    const url = `https://hooks.example/${'x'.repeat(40)}`
    assert.equal(
      formatTable(columns.slice(0, 2), [{ id: 'a', text: `one two three four ${url}` }], 20),
      `ID\n  TEXT\na\n  one two three four\n  ${url}\n`,
    )
  })

  test('details leave out absent values and fit in the terminal', () => {
    const details = [
      ['Name', 'a'],
      ['Much longer', '\x1b'],
      ['None', null],
    ] as const
    assert.equal(formatDetails(details, 80), 'Name         a\nMuch longer  \\u{1b}\n')
    assert.equal(
      formatDetails([['Name', 'word '.repeat(9).trim()]], 40),
      'Name  word word word word word word word\n      word word\n',
    )
    assert.equal(
      formatDetails([['A long name', 'word '.repeat(9).trim()]], 30),
      'A long name\n    word word word word word\n    word word word word\n',
    )
  })
})

test("progress is only drawn on a terminal, where it's overwritten and finally removed", () => {
  let drawn = ''
  const write = (text: string): void => {
    drawn += text
  }
  const hidden = createProgress({ write }, 'Working')
  hidden.show('1')
  hidden.clear()
  assert.equal(drawn, '')
  const shown = createProgress({ write, isTTY: true }, 'Working')
  for (let done = 1; done < 100; done++) shown.show(`${done} rows`)
  shown.clear()
  assert.deepEqual(drawn.split('\r\x1b[K').slice(1), ['Working … 1 rows', ''])
})

test('a failure is one line for every thrown value', () => {
  const cases: readonly (readonly [unknown, string, number])[] = [
    [new Error('two\n  lines \x1b[31m'), 'two lines \\u{1b}[31m', 1],
    [
      Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }),
      'Cannot reach PostgreSQL: the connection was refused; is it running?',
      1,
    ],
    [
      storeUnavailable('Cannot reach PostgreSQL', Object.assign(new Error(), { code: '28P01' })),
      'Cannot reach PostgreSQL: the password was rejected; check the user and the password in DATABASE_URL',
      1,
    ],
    [
      storeUnavailable('Cannot use PostgreSQL because it is slow'),
      'Cannot use PostgreSQL because it is slow',
      1,
    ],
    [
      storeUnavailable(
        "Cannot use PostgreSQL because its pooler rejects session parameters: set option 'sessions' to false, and leave such parameters out of the connection string",
        new Error(''),
      ),
      'Cannot use PostgreSQL because its pooler rejects session parameters: leave such parameters out of DATABASE_URL; deliver also needs --pooler',
      1,
    ],
    [new TypeError("Option 'maxApiKeys' must be …"), '--max-api-keys must be …', 2],
    [
      new BusinessApiError(INVALID_INPUT, 'Cannot define the event because it must be …'),
      'Cannot define the event because it must be …',
      2,
    ],
    [Object.assign(new Error(), { code: 'EODD' }), 'Unexpected failure: EODD', 1],
    ['thrown', 'Unexpected failure', 1],
  ]
  for (const [error, line, exitCode] of cases) assert.deepEqual(describeFailure(error), { line, exitCode })
})
