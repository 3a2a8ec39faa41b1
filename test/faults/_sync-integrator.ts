// A program of a customer that keeps copies of clients and leads by polling, in a separate process.
//
//   node --import tsx test/faults/_sync-integrator.ts '{"url":"http://127.0.0.1:…", "key":"…", "path":"…"}'
//
// Two copies: `whole`, from the beginning, and `changes`, from the time of the first start. Prints `positioned` when both have a
// token for each resource. After a line `finish` polls once more to the end, and prints `finished`. The file at `path` has a line for the
// records of each page and then a line for the token of the page; the program may be killed between any two bytes.

import { appendFileSync, existsSync, readFileSync, truncateSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError, createApiClient } from '../../lib/client.ts'

/** The arguments of an integrator. */
export interface SyncIntegratorConfig {
  readonly url: string
  readonly key: string
  readonly path: string
}

/** A line of the file. */
export type SyncLine =
  | {
      readonly copy: Copy
      readonly resource: Resource
      readonly records: readonly { readonly id: string }[]
    }
  | {
      readonly copy: Copy
      readonly resource: Resource
      readonly token: string
      readonly isLast: boolean
    }
  | { readonly begun: true }

const COPIES = ['whole', 'changes'] as const
const RESOURCES = ['clients', 'leads'] as const
type Copy = (typeof COPIES)[number]
type Resource = (typeof RESOURCES)[number]

const { url, key, path } = JSON.parse(process.argv[2] ?? '{}') as SyncIntegratorConfig
const api = createApiClient({
  url,
  key,
  timeoutMs: 3000,
  // A test has no time for whole pauses.
  wait: async (ms, signal) => void (await sleep(Math.min(ms, 100), undefined, { signal })),
})
const write = (line: SyncLine): void => appendFileSync(path, `${JSON.stringify(line)}\n`)

/** The positions in the file. A line that the end of the program has cut is taken away. */
function readPositions(): Map<string, string> {
  const positions = new Map<string, string>()
  if (!existsSync(path)) return positions
  const bytes = readFileSync(path)
  truncateSync(path, bytes.lastIndexOf('\n') + 1)
  for (const line of bytes.toString().split('\n')) {
    if (!line.endsWith('}') || !line.includes('"token"')) continue
    const { copy, resource, token } = JSON.parse(line)
    positions.set(`${copy} ${resource}`, token)
  }
  return positions
}

const positions = readPositions()
write({ begun: true })
const startedAt = new Date()
let asked = false
createInterface({ input: process.stdin })
  .on('line', (line) => {
    asked = line === 'finish'
  })
  .on('close', () => process.exit())
console.log('started')

for (;;) {
  const isFinal = asked
  for (const copy of COPIES) for (const resource of RESOURCES) await poll(copy, resource)
  console.log('positioned')
  if (isFinal) break
  await sleep(20)
}
console.log('finished')

/** Reads what has changed since the position, to the end. */
async function poll(copy: Copy, resource: Resource): Promise<void> {
  for (;;) {
    try {
      return await readPages(copy, resource)
    } catch (error) {
      if (!(error instanceof ApiError) || !error.isTransient) throw error
    }
  }
}

async function readPages(copy: Copy, resource: Resource): Promise<void> {
  const place = `${copy} ${resource}`
  const updatedSince = positions.get(place) ?? (copy === 'whole' ? new Date(0) : startedAt)
  const list = api[resource].list({ updatedSince }) as { pages(): AsyncIterable<SyncPage> }
  for await (const { data, syncToken } of list.pages()) {
    if (syncToken === null) throw new Error('The API has sent no Sync-Token')
    if (data.length > 0) write({ copy, resource, records: data })
    if (syncToken !== positions.get(place)) {
      write({ copy, resource, token: syncToken, isLast: data.length < 200 })
    }
    positions.set(place, syncToken)
  }
}

interface SyncPage {
  readonly data: readonly { readonly id: string }[]
  readonly syncToken: string | null
}
