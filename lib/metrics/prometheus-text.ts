import type { Histogram, Labels, Numbers } from './instruments.ts'

/** The content type of the Prometheus exposition format, version 0.0.4. */
export const PROMETHEUS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Formats metrics in the Prometheus exposition format. Metrics with no series are omitted. */
export function writePrometheusText(metrics: readonly (Numbers | Histogram)[]): string {
  return metrics
    .filter(({ all }) => all.length > 0)
    .map(writeMetric)
    .join('')
}

function writeMetric(metric: Numbers | Histogram): string {
  const { help, kind } = metric
  const name = nameOf(metric)
  const head = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${kind}\n`
  return head + (metric.kind === 'histogram' ? writeHistogram(name, metric) : writeNumbers(name, metric))
}

/** Appends the unit, and the suffix for counters. */
function nameOf({ name, unit, kind }: Numbers | Histogram): string {
  return `${name.replaceAll('.', '_')}${unit === 's' ? '_seconds' : ''}${kind === 'counter' ? '_total' : ''}`
}

function writeNumbers(name: string, { all }: Numbers): string {
  return all.map(({ labels, value }) => `${name}${writeLabels(labels)} ${writeNumber(value)}\n`).join('')
}

function writeHistogram(name: string, { bounds, all }: Histogram): string {
  return all
    .map(({ labels, counts, sum }) => {
      let total = 0
      const buckets = counts.map((count, bucket) => {
        total += count
        const le = writeNumber(bounds[bucket] ?? Number.POSITIVE_INFINITY)
        return `${name}_bucket${writeLabels({ ...labels, le })} ${total}\n`
      })
      const shown = writeLabels(labels)
      return `${buckets.join('')}${name}_sum${shown} ${writeNumber(sum)}\n${name}_count${shown} ${total}\n`
    })
    .join('')
}

function writeLabels(labels: Labels): string {
  const entries = Object.entries(labels)
  if (entries.length === 0) return ''
  const quote = (value: string): string => escapeHelp(value).replaceAll('"', '\\"')
  return `{${entries.map(([name, value]) => `${name}="${quote(value)}"`).join(',')}}`
}

function writeNumber(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  if (value === Number.NEGATIVE_INFINITY) return '-Inf'
  return String(value)
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}
