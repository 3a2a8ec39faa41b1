import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

// Runs the curl lines that the demo prints: with curl in a shell if curl is installed, else by reading the line.

/** The answer to a curl line. */
export interface CurlAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

const run = promisify(execFile)

/** Runs a line like `curl -isw '\n' 'http://…' -H 'Name: value' -d '{…}'`. */
export async function runCurl(line: string): Promise<CurlAnswer> {
  return (await hasCurl()) ? runInShell(line) : runByFetch(line)
}

async function hasCurl(): Promise<boolean> {
  return run('curl', ['--version']).then(
    () => true,
    () => false,
  )
}

async function runInShell(line: string): Promise<CurlAnswer> {
  const { stdout } = await run('sh', ['-c', line], { maxBuffer: 10 * 1024 * 1024 })
  const [head = '', body = ''] = stdout.split('\r\n\r\n')
  const [statusLine = '', ...fields] = head.split('\r\n')
  const headers = new Headers(fields.map((field): [string, string] => split(field)))
  return { status: Number(statusLine.split(' ')[1]), headers, body }
}

async function runByFetch(line: string): Promise<CurlAnswer> {
  const [, url = ''] = /'(http[^']+)'/.exec(line) ?? []
  const [, body] = /-d '([^']*)'/.exec(line) ?? []
  const headers = new Headers([...line.matchAll(/-H '([^']*)'/g)].map(([, field = '']) => split(field)))
  const response = await fetch(url, { headers, ...(body === undefined ? {} : { method: 'POST', body }) })
  return { status: response.status, headers: response.headers, body: await response.text() }
}

function split(field: string): [string, string] {
  const colon = field.indexOf(':')
  return [field.slice(0, colon), field.slice(colon + 1).trim()]
}
