import assert from 'node:assert/strict'

// A strict parser of the Prometheus exposition format, version 0.0.4. Also rejects text that Prometheus would accept
// but nobody should send (metrics without HELP, duplicate series, decreasing buckets).

/** A sample by name and labels. */
export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const HELP = new RegExp(`^# HELP (${NAME}) (.+)$`)
const TYPE = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram)$`)
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(.*)\\})? (-?(?:\\d+(?:\\.\\d+)?(?:e[+-]?\\d+)?|Inf)|\\+Inf|NaN)$`)
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/

/** Parses a text. */
export function readPrometheus(text: string): readonly Sample[] {
  assert.ok(text === '' || text.endsWith('\n'), 'the last line ends with a line feed')
  const lines = text.split('\n').slice(0, -1)
  const seen = new Set<string>()
  const samples: Sample[] = []
  let metric = { name: '', kind: '' }
  let samplesOfMetric: Sample[] = []
  for (let at = 0; at < lines.length; at++) {
    const help = HELP.exec(lines[at] ?? '')
    if (help) {
      checkHistogram(metric, samplesOfMetric)
      const type = TYPE.exec(lines[++at] ?? '')
      assert.ok(type, `no TYPE after ${help[0]}`)
      const [, name = '', kind = ''] = type
      assert.equal(name, help[1])
      assert.ok(!seen.has(name), `${name} stands twice`)
      assert.equal(kind === 'counter', name.endsWith('_total'), `${name} is a ${kind}`)
      seen.add(name)
      metric = { name, kind }
      samplesOfMetric = []
      continue
    }
    const sample = readSample(lines[at] ?? '')
    const suffix = sample.name.slice(metric.name.length)
    const suffixes = metric.kind === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
    assert.ok(sample.name.startsWith(metric.name) && suffixes.includes(suffix), `${sample.name} has no TYPE`)
    const series = `${sample.name} ${JSON.stringify(Object.entries(sample.labels).sort())}`
    assert.ok(!seen.has(series), `${series} stands twice`)
    seen.add(series)
    samplesOfMetric.push(sample)
    samples.push(sample)
  }
  checkHistogram(metric, samplesOfMetric)
  return samples
}

function readSample(line: string): Sample {
  const match = SAMPLE.exec(line)
  assert.ok(match, `no sample: ${line}`)
  const [, name = '', inBraces, value = ''] = match
  const labels: Record<string, string> = {}
  for (let rest = inBraces ?? ''; rest !== ''; ) {
    const label = LABEL.exec(rest)
    assert.ok(label, `no label: ${rest}`)
    const [whole, key = '', escaped = ''] = label
    assert.ok(!(key in labels), `${key} stands twice`)
    labels[key] = escaped.replace(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character))
    rest = rest.slice(whole.length)
  }
  return { name, labels, value: Number(value.replace('Inf', 'Infinity')) }
}

function checkHistogram({ name, kind }: { name: string; kind: string }, samples: readonly Sample[]): void {
  if (kind !== 'histogram') return
  const keyOf = ({ labels: { le: _, ...labels } }: Sample): string => JSON.stringify(labels)
  for (const key of new Set(samples.map(keyOf))) {
    const own = samples.filter((sample) => keyOf(sample) === key)
    const buckets = own.filter((sample) => sample.name === `${name}_bucket`)
    const bounds = buckets.map(({ labels: { le = '' } }) => Number(le.replace('Inf', 'Infinity')))
    assert.deepEqual(
      bounds,
      [...bounds].sort((one, other) => one - other),
    )
    assert.equal(bounds.at(-1), Number.POSITIVE_INFINITY)
    const counts = buckets.map(({ value }) => value)
    assert.deepEqual(
      counts,
      [...counts].sort((one, other) => one - other),
      `${name} falls`,
    )
    const count = own.find((sample) => sample.name === `${name}_count`)
    assert.equal(count?.value, counts.at(-1))
    assert.ok(own.some((sample) => sample.name === `${name}_sum`))
  }
}

/** Returns the value of the only sample with this name and labels, or `undefined` if there is none. */
export function sampleOf(
  samples: readonly Sample[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const found = samples.filter(
    (sample) =>
      sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  )
  assert.ok(found.length <= 1, `${found.length} samples of ${name}`)
  return found[0]?.value
}
