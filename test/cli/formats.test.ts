import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  formatDuration,
  formatMoment,
  parseDuration,
  parseFuture,
  parsePast,
} from '../../lib/cli/durations.ts'
import { describeFailure } from '../../lib/cli/failure.ts'
import { createProgress, formatBar } from '../../lib/cli/progress.ts'
import { type Column, formatDetails, formatTable } from '../../lib/cli/table.ts'
import { cut, visible, widthOf } from '../../lib/cli/text.ts'
import { storeUnavailable } from '../../lib/errors.ts'

describe('durations and moments', () => {
  test('are read with their unit', () => {
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
      assert.throws(() => parseDuration(text, '--x'), /Cannot use --x as it must be a duration/)
    }
  })

  test('a moment is so long ago or to come, a day in UTC, or ISO 8601 with a time zone', () => {
    assert.ok(Math.abs(parsePast('24h', '--x').getTime() - (Date.now() - 86_400_000)) < 1000)
    assert.ok(Math.abs(parseFuture('24h', '--x').getTime() - (Date.now() + 86_400_000)) < 1000)
    assert.equal(parsePast('2026-01-31', '--x').toISOString(), '2026-01-31T00:00:00.000Z')
    assert.equal(parsePast('2026-01-31T09:00:00+01:00', '--x').toISOString(), '2026-01-31T08:00:00.000Z')
    for (const text of ['yesterday', '2026-13-01', '2026-01-31T09:00:00', '31.1.2026']) {
      assert.throws(() => parsePast(text, '--x'), /Cannot use --x as it must be/)
    }
  })

  test('are written with two units at most', () => {
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
  test('carries out nothing in a terminal', () => {
    assert.equal(visible('a\x1b[2Jb\r\n\u009b\u202e'), 'a\\u{1b}[2Jb\\u{d}\\u{a}\\u{9b}\\u{202e}')
    assert.equal(visible('Écume 🏺 製陶 عربي'), 'Écume 🏺 製陶 عربي')
  })

  test('is as wide as a terminal shows it, and is cut between characters', () => {
    for (const [text, width] of Object.entries({ abc: 3, 'e\u0301': 1, 製陶: 4, '🏺': 2 })) {
      assert.equal(widthOf(text), width)
    }
    assert.equal(cut('abcdef', 6), 'abcdef')
    assert.equal(cut('abcdef', 5), 'abcd…')
    assert.equal(cut('製陶所', 5), '製陶…')
    assert.ok(widthOf(cut('製陶所', 4)) <= 4)
  })
})

describe('tables', () => {
  interface Row {
    readonly id: string
    readonly text: string
  }
  const columns: readonly Column<Row>[] = [
    { title: 'ID', value: ({ id }) => id },
    { title: 'TEXT', value: ({ text }) => text, isFlexible: true },
    { title: 'AGAIN', value: ({ text }) => text, isFlexible: true },
  ]

  test('are aligned, also where characters are wide or missing', () => {
    const rows = [
      { id: 'a', text: '製陶' },
      { id: 'bbb', text: '' },
    ]
    assert.equal(
      formatTable(columns, rows, Number.POSITIVE_INFINITY),
      'ID   TEXT  AGAIN\na    製陶  製陶\nbbb  -     -\n',
    )
  })

  test('fit into the terminal by what may be cut, which is never an id', () => {
    const rows = [{ id: 'x'.repeat(20), text: 'word '.repeat(20) }]
    for (const width of [60, 80, 100]) {
      const lines = formatTable(columns, rows, width).trimEnd().split('\n')
      for (const line of lines) assert.ok(widthOf(line) <= width, line)
      assert.match(lines[1] ?? '', /^x{20} {2}word .*…/)
    }
    assert.match(formatTable(columns, rows, 10), /^x{20} {2}word wo…/m)
  })

  test('leave columns out where cutting is not enough, the last that may be first', () => {
    const wide: readonly Column<Row>[] = [
      { title: 'ID', value: ({ id }) => id },
      { title: 'FIRST', value: () => 'f'.repeat(20), isOptional: true },
      { title: 'SECOND', value: () => 's'.repeat(20), isOptional: true },
      { title: 'TEXT', value: ({ text }) => text, isFlexible: true },
    ]
    const rows = [{ id: 'x'.repeat(30), text: 'word '.repeat(4).trim() }]
    const titles = (width: number): string[] =>
      formatTable(wide, rows, width).split('\n')[0]?.split(/ +/) ?? []
    assert.deepEqual(titles(84), ['ID', 'FIRST', 'SECOND', 'TEXT'])
    assert.deepEqual(titles(80), ['ID', 'FIRST', 'TEXT'])
    assert.deepEqual(titles(61), ['ID', 'TEXT'])
    for (const width of [40, 61, 80]) {
      for (const line of formatTable(wide, rows, width).split('\n')) assert.ok(widthOf(line) <= width)
    }
  })

  test('details leave out what is not there', () => {
    const details = formatDetails([
      ['Name', 'a'],
      ['Much longer', '\x1b'],
      ['None', null],
    ])
    assert.equal(details, 'Name         a\nMuch longer  \\u{1b}\n')
  })
})

describe('the progress bar', () => {
  test('is full only at the end, and never too full', () => {
    assert.equal(formatBar(0, 1000), `[${'-'.repeat(24)}] 0 %  0 of 1,000`)
    assert.equal(formatBar(999, 1000), `[${'#'.repeat(23)}-] 99 %  999 of 1,000`)
    assert.equal(formatBar(1200, 1000), `[${'#'.repeat(24)}] 100 %  1,200 of 1,200`)
  })

  test('is drawn on a terminal only, over itself, and taken back', () => {
    let drawn = ''
    const write = (text: string): void => {
      drawn += text
    }
    const hidden = createProgress({ write }, 'Working')
    hidden.show(1, 2)
    hidden.clear()
    assert.deepEqual([hidden.isShown, drawn], [false, ''])
    const shown = createProgress({ write, isTTY: true }, 'Working')
    for (let done = 1; done < 100; done++) shown.show(done, 100)
    shown.show(100, 100)
    shown.clear()
    const frames = drawn.split('\r\x1b[K').slice(1)
    assert.equal(frames.length, 3)
    assert.match(frames[0] ?? '', /^Working \[-{24}\] 1 %/)
    assert.match(frames[1] ?? '', /100 of 100$/)
    assert.equal(frames[2], '')
  })
})

test('a failure is told in one line, whatever was thrown', () => {
  const cases: readonly (readonly [unknown, string, number])[] = [
    [new Error('two\n  lines \x1b[31m'), 'two lines \\u{1b}[31m', 1],
    [
      Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }),
      'Cannot reach PostgreSQL: the connection was refused; is it running?',
      1,
    ],
    [
      storeUnavailable('Cannot reach PostgreSQL', Object.assign(new Error(), { code: '28P01' })),
      'Cannot reach PostgreSQL: it refused the password',
      1,
    ],
    [storeUnavailable('Cannot use PostgreSQL as it is slow'), 'Cannot use PostgreSQL as it is slow', 1],
    [
      new TypeError("Cannot use option 'keyPrefix' as it must be …"),
      'Cannot use --key-prefix as it must be …',
      2,
    ],
    [Object.assign(new Error(), { code: 'EODD' }), 'Unexpected failure: EODD', 1],
    ['thrown', 'Unexpected failure', 1],
  ]
  for (const [error, line, exitCode] of cases) assert.deepEqual(describeFailure(error), { line, exitCode })
})
