import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { type BusinessApi, type BusinessApiOptions, createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import '../tools/_install.ts'
import { type Answer, abort, send, type Target } from './_requests.ts'

// Every host × parser before the API × mount × case, and the table of them in lib/api/README.md, which a run compares and
// `UPDATE_TABLE=1 node --import tsx --test test/mounts/mounts.slow.ts` writes. Not part of the ordinary run, because the suite installs the hosts.

const PARSERS = ['none', 'parsed', 'raw'] as const
const PREFIXES = ['', '/platform'] as const
const CASES = ['ok', 'bad', 'big', 'chunked', 'aborted', 'unmatched'] as const
type Parser = (typeof PARSERS)[number]
type Prefix = (typeof PREFIXES)[number]
type Case = (typeof CASES)[number]

interface Cell {
  readonly parser: Parser
  readonly prefix: Prefix
  createApi(options: BusinessApiOptions): BusinessApi
}

interface Host {
  open(cell: Cell): Promise<Server>
  /** True if the API leaves unknown paths to the host. */
  readonly hasNext?: boolean
  readonly isHttp2?: boolean
  /** True for a server of all cells, which ends with the process. */
  readonly isShared?: boolean
}

interface Hosts {
  readonly HOSTS: Readonly<Record<string, Host>>
  closeShared(): Promise<void>
}

/** The API answered as documented, or the host did before the API got the request. */
type Verdict = 'API' | 'host'

const cwd = import.meta.dirname
const run = promisify(execFile)

const nextBin = createRequire(import.meta.url).resolve('next/dist/bin/next')
const environment = { ...process.env, NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'production' }
await run(process.execPath, [nextBin, 'build'], { cwd: join(cwd, 'next'), env: environment })
const { HOSTS, closeShared }: Hosts = await import(new URL('hosts.mjs', import.meta.url).href)

const strays: unknown[] = []
process.on('unhandledRejection', (error) => strays.push(error))
process.on('uncaughtException', (error) => strays.push(error))
after(async () => {
  await closeShared()
  assert.deepEqual(strays, [], 'nothing was thrown outside of every request')
})

// --- Cases ---

interface Opened {
  readonly target: Target
  readonly prefix: Prefix
  readonly hasNext: boolean
  names(): Promise<readonly string[]>
}

const BAD = '{"name":'
const BIG = JSON.stringify({ name: 'Atlas', pad: 'x'.repeat(70 * 1024) })
let names = 0

const TRIES: Readonly<Record<Case, (opened: Opened) => Promise<Verdict>>> = {
  async ok({ target, prefix, names: listed }) {
    const name = `Atlas 🏺 ${++names}`
    const posted = await send(target, `${prefix}/api/v1/clients`, JSON.stringify({ name }))
    assert.equal(posted.status, 200, posted.text)
    assert.equal(JSON.parse(posted.text).data.business.name, name)
    assert.deepEqual((await listed())[0], name)
    return 'API'
  },

  async bad({ target, prefix }) {
    return judge(await send(target, `${prefix}/api/v1/clients`, BAD), 400)
  },

  async big({ target, prefix }) {
    return judge(await send(target, `${prefix}/api/v1/clients`, BIG), 413)
  },

  async chunked({ target, prefix, names: listed }) {
    const name = `Atlas ${++names}`
    const posted = await send(target, `${prefix}/api/v1/clients`, JSON.stringify({ name }), false)
    assert.equal(posted.status, 200, posted.text)
    assert.deepEqual((await listed())[0], name)
    return judge(await send(target, `${prefix}/api/v1/clients`, BIG, false), 413)
  },

  async aborted({ target, prefix, names: listed }) {
    const name = `Gone ${++names}`
    await abort(target, `${prefix}/api/v1/clients`, name)
    assert.ok(!(await listed()).includes(name), 'half a body makes no record')
    return 'API'
  },

  async unmatched({ target, prefix, hasNext }) {
    const answer = await send(target, `${prefix}/api/v1/nothing`)
    const verdict = judge(answer, 404)
    assert.equal(verdict, hasNext ? 'host' : 'API', answer.text)
    return verdict
  },
}

/** An error in the API's form is the API's. */
function judge({ status, requestId, text }: Answer, expected: number): Verdict {
  assert.equal(status, expected, text)
  if (requestId === undefined) return 'host'
  assert.deepEqual(Object.keys(JSON.parse(text)), ['error', 'requestId'])
  assert.equal(JSON.parse(text).requestId, requestId)
  return 'API'
}

// --- Cells ---

const verdicts = new Map<string, Verdict>()

async function tryAll(name: string, host: Host, parser: Parser, prefix: Prefix): Promise<void> {
  const store = createMemoryStore()
  const failures: unknown[] = []
  const { apiKeys } = createDeveloperSettings(store, { allowPlaintextSecrets: true })
  const { key } = await apiKeys.create('org_mounts', {
    name: 'Mounts',
    scopes: ['clients:read', 'clients:write'],
  })
  const createApi = (options: BusinessApiOptions): BusinessApi =>
    createBusinessApi(store, { logger: false, onError: (error) => failures.push(error), ...options })
  const server = await host.open({ parser, prefix, createApi })
  try {
    const { port } = server.address() as AddressInfo
    const target = { port, key, isHttp2: host.isHttp2 ?? false }
    const listed = async (): Promise<readonly string[]> => {
      const answer = await send(target, `${prefix}/api/v1/clients`)
      assert.equal(answer.status, 200, answer.text)
      return JSON.parse(answer.text).data.map(({ business }: { business: { name: string } }) => business.name)
    }
    for (const each of CASES) {
      const opened = { target, prefix, hasNext: host.hasNext ?? false, names: listed }
      const verdict = await TRIES[each](opened).catch((error) => {
        throw new Error(`${name}, parser ${parser}, prefix '${prefix}', ${each}: ${error.message}`, {
          cause: error,
        })
      })
      verdicts.set([name, parser, prefix, each].join(), verdict)
    }
    assert.deepEqual(failures, [])
  } finally {
    if (!host.isShared) {
      await new Promise((resolve) => {
        server.close(resolve)
        if ('closeAllConnections' in server)
          Reflect.apply(server.closeAllConnections as () => void, server, [])
      })
    }
  }
}

for (const [name, host] of Object.entries(HOSTS)) {
  for (const parser of PARSERS) {
    for (const prefix of PREFIXES) {
      test(`${name}, parser: ${parser}, mounted at ${prefix || '/'}`, () =>
        tryAll(name, host, parser, prefix))
    }
  }
}

// --- The table ---

const PAGE = join(cwd, '../../lib/api/README.md')
const [BEGIN, END] = ['<!-- mounts: written by test/mounts/mounts.slow.ts -->\n', '<!-- /mounts -->']

test('the table in lib/api/README.md is the table of this run', async () => {
  const page = await readFile(PAGE, 'utf8')
  const [before, rest = ''] = page.split(BEGIN)
  const [table, after = ''] = rest.split(END)
  const present = writeTable()
  if (process.env.UPDATE_TABLE) await writeFile(PAGE, [before, BEGIN, present, END, after].join(''))
  else assert.equal(table, present)
})

function writeTable(): string {
  const rows = Object.keys(HOSTS).flatMap((name) =>
    PARSERS.map((parser) => {
      const cells = CASES.map((each) => {
        const [root, prefixed] = PREFIXES.map(
          (prefix) => verdicts.get([name, parser, prefix, each].join()) ?? 'fails',
        )
        return root === prefixed ? root : `${root}; under a prefix ${prefixed}`
      })
      return `| ${[name, parser, ...cells].join(' | ')} |\n`
    }),
  )
  return [
    '| host | parser before the API | ok | bad JSON | too big | without a length: ok, too big | aborted | unmatched |\n|---|---|---|---|---|---|---|---|\n',
    ...rows,
  ].join('')
}
