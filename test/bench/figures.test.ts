import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findMostFrequent } from './captured-statement.ts'
import { drawChart } from './chart.ts'
import { createCollector, type Figures, median, medianInterval, medianRatio } from './figures.ts'
import { judge } from './goals.ts'
import { readOptions } from './options.ts'
import { createAnswerMeter } from './programs/answer-meter.ts'
import { reportFigures } from './report.ts'

const figures: Figures = {
  lists: {
    date: '2026-01-01',
    machine: 'a machine',
    rounds: 3,
    seconds: 1,
    connections: 32,
    series: [
      { work: 'list of 50, one key', subject: 'ours', samples: rates(400, 100, 900) },
      { work: 'list of 50, one key', subject: 'Fastify', samples: rates(100, 100, 100) },
    ],
    leftOut: ['Express: <none>'],
  },
}

function rates(...values: readonly number[]): { perSecond: number }[] {
  return values.map((perSecond) => ({ perSecond }))
}

test('a ratio is the median of the ratios of the rounds, not the ratio of the medians', () => {
  const collector = createCollector()
  for (const perSecond of [100, 200, 900]) collector.add('list', 'ours', { perSecond })
  for (const perSecond of [100, 50, 300]) collector.add('list', 'other', { perSecond })
  const [ours, other] = collector.series
  assert(ours && other)
  assert.equal(medianRatio(ours, other, 'perSecond'), 3)
  assert.equal(median([4, 1, 3, 2]), 2.5)
})

test('a goal is judged where both series have figures', () => {
  const [fastify, ...others] = judge(figures)
  assert.deepEqual([fastify?.ratio, fastify?.isMet, others], [4, true, []])
  const comparison = { part: 'lists', text: '', of: ['list of 50, one key', 'ours'] } as const
  const over = ['list of 50, one key', 'Fastify'] as const
  assert.equal(judge(figures, [{ ...comparison, over, atLeast: 4.1 }])[0]?.isMet, false)
  assert.equal(judge(figures, [{ ...comparison, over, atMost: 3.9 }])[0]?.isMet, false)
  assert.equal(judge(figures, [{ ...comparison, over }])[0]?.isMet, null)
})

test('the report names what was left out, and each verdict', () => {
  const report = reportFigures(figures)
  assert.match(report, /left out: Express: <none>/)
  assert.match(report, /list of 50, one key: ours \/ Fastify +4\.00 +goal ≥ 4 +met/)
})

test('the chart has a bar for each subject, the longest at full width', () => {
  const widths = [...drawChart(figures).matchAll(/<rect class="(\w+)" [^>]*width="([\d.]+)"/g)]
  assert.deepEqual(
    widths.map(([, kind, width]) => [kind, width]),
    [
      ['ours', '490.0'],
      ['other', '122.5'],
    ],
  )
})

test('the arguments of a run are checked, and parts run in the usual order', () => {
  assert.deepEqual(readOptions(['--only', 'creates,lists', '--rounds', '2']).only, ['lists', 'creates'])
  assert.throws(() => readOptions(['--only', 'list']), /Cannot run "list"/)
  assert.throws(() => readOptions(['--rounds', '0']), /--rounds must be a whole number/)
})

test('a response is complete with the last byte, wherever the pieces are cut', () => {
  const answer = Buffer.from('HTTP/1.1 429 Too Many\r\nContent-Length: 3\r\n\r\nabc')
  for (let cut = 1; cut < answer.length; cut++) {
    const meter = createAnswerMeter()
    assert.equal(meter.take(answer.subarray(0, cut)), null)
    assert.equal(meter.take(answer.subarray(cut)), '429')
    assert.equal(meter.take(answer), '429')
  }
  assert.throws(() => createAnswerMeter().take(Buffer.concat([answer, answer])), /longer than its length/)
  assert.throws(() => createAnswerMeter().take(Buffer.from('HTTP/1.1 200 OK\r\n\r\n')), /gives no length/)
})

test('the interval of a median is the narrowest of order statistics with a confidence of 95 %', () => {
  assert.deepEqual(medianInterval([7, 1, 6, 2, 5, 3, 4]), { low: 1, high: 7, confidence: 1 - 2 / 128 })
  assert.deepEqual(medianInterval([9, 8, 7, 6, 5, 4, 3, 2, 1]), { low: 2, high: 8, confidence: 1 - 20 / 512 })
  assert.deepEqual(medianInterval([3, 1]), { low: 1, high: 3, confidence: 0.5 })
})

test('the most frequent statement is read from the log with the values of an execution', () => {
  const at = '2026-01-01 00:00:00.000 UTC [1]'
  const execution = (text: string, values: string): string[] => [
    `${at} LOG:  execute q1: ${text}`,
    `${at} DETAIL:  Parameters: ${values}`,
  ]
  const frequent = execution("select $1,\n\t  'a: b', $2", "$1 = 'it''s, $2 = 1', $2 = NULL")
  const lines = [...execution('select 1', "$1 = 'x'"), ...frequent, ...frequent].flatMap((line) =>
    line.split('\n'),
  )
  assert.deepEqual(findMostFrequent(lines), {
    text: "select $1,\n  'a: b', $2",
    values: ["it's, $2 = 1", null],
  })
})
