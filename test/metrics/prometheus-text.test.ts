import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHistogram, createNumbers } from '../../lib/metrics/instruments.ts'
import { writePrometheusText } from '../../lib/metrics/prometheus-text.ts'
import { readPrometheus } from './_prometheus.ts'

const ABOUT = { name: 'test', help: 'A test.', unit: '1' }

test('writePrometheusText() writes a histogram with cumulative buckets, +Inf, sum and count', () => {
  const durations = createHistogram({ ...ABOUT, name: 'test_seconds' }, [0.1, 1], undefined)
  const series = durations.series({ route: '/' })
  for (const ms of [50, 100, 500, 3000]) series.observe(ms)
  assert.equal(
    writePrometheusText([durations]),
    [
      '# HELP test_seconds A test.',
      '# TYPE test_seconds histogram',
      'test_seconds_bucket{route="/",le="0.1"} 2',
      'test_seconds_bucket{route="/",le="1"} 3',
      'test_seconds_bucket{route="/",le="+Inf"} 4',
      'test_seconds_sum{route="/"} 3.65',
      'test_seconds_count{route="/"} 4',
      '',
    ].join('\n'),
  )
})

test('writePrometheusText() escapes quotes, backslashes and line feeds', () => {
  const counter = createNumbers('counter', { ...ABOUT, help: 'A \\ and\na line.' })
  const value = 'a "quoted" \\ back\nline'
  counter.series({ value }).value = 2
  const text = writePrometheusText([counter])
  assert.ok(text.includes('# HELP test_total A \\\\ and\\na line.\n'))
  assert.ok(text.includes('{value="a \\"quoted\\" \\\\ back\\nline"} 2\n'))
  assert.deepEqual(readPrometheus(text), [{ name: 'test_total', labels: { value }, value: 2 }])
})

test('writePrometheusText() leaves out a metric without a series', () => {
  assert.equal(writePrometheusText([createNumbers('gauge', ABOUT)]), '')
})

test('a series is found by its labels in any order', () => {
  const counter = createNumbers('counter', ABOUT)
  counter.series({ a: '1', b: '2' }).value++
  counter.series({ b: '2', a: '1' }).value++
  counter.series({ a: '1' }).value++
  assert.deepEqual(
    counter.all.map(({ value }) => value),
    [2, 1],
  )
})

test('the parser of these tests rejects what violates the format', () => {
  const head = '# HELP x_total X.\n# TYPE x_total counter\n'
  for (const text of [
    'x 1\n',
    `${head}x_total 1`,
    `${head}x_total 1\nx_total 2\n`,
    `${head}x_total{a="1" 2\n`,
    `${head}x_total{a="\\x"} 2\n`,
    `${head}x_total one\n`,
    `${head}${head}x_total 1\n`,
    '# HELP h H.\n# TYPE h histogram\nh_bucket{le="1"} 3\nh_bucket{le="+Inf"} 2\nh_sum 1\nh_count 2\n',
  ]) {
    assert.throws(() => readPrometheus(text), text)
  }
})
