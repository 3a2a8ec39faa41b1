import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

// The code on the pages and in the examples of the functions is compiled, so no reader copies a line that is no longer true.

const ROOT = join(import.meta.dirname, '..')
const run = promisify(execFile)

/** The names that the snippets take from the surroundings. */
const SURROUNDINGS = `
import type { IncomingMessage, Server } from 'node:http'
import type { BusinessApi } from 'business-api-kit'
import type {
  DrizzleSql,
  DrizzleTransaction,
  KyselyCompiledQuery,
  KyselyTransaction,
  PostgresStore,
  PostgresPlatform,
  PrismaTransaction,
  ShardedStore,
} from 'business-api-kit/postgres'
import type { DeveloperSettings } from 'business-api-kit/settings'
import type { Notice, WebhookSender } from 'business-api-kit/webhooks'
import type { Express } from 'express'
import type { Pool } from 'pg'
import type { Sql } from 'postgres'

declare global {
  const api: BusinessApi
  const app: Express
  const store: PostgresStore
  const settings: DeveloperSettings
  const platform: PostgresPlatform
  const sender: WebhookSender
  const sql: Sql
  const pool: Pool
  const pools: Record<string, Sql>
  const sharded: ShardedStore
  const slots: readonly string[]
  const Refusal: typeof import('business-api-kit').Refusal
  const createServer: typeof import('node:http').createServer
  const v: typeof import('valibot')
  type Invoice = import('business-api-kit').Invoice
  type Route = import('business-api-kit').Route
  type RouteContext = import('business-api-kit').RouteContext
  const drizzle: { transaction(work: (tx: DrizzleTransaction) => Promise<void>): Promise<void> }
  const drizzleSql: DrizzleSql
  const kysely: { transaction(): { execute(work: (tx: KyselyTransaction) => Promise<void>): Promise<void> } }
  const CompiledQuery: KyselyCompiledQuery
  const prisma: { $transaction(work: (tx: PrismaTransaction) => Promise<void>): Promise<void> }
  const secretKeys: readonly string[]
  const url: string
  const user: { readonly id: string }
  const id: string, endpointId: string, invoiceId: string, orderId: string, transferId: string, amount: string
  const paymentId: string, disputeId: string, oldKey: string
  const authorization: string, secret: string, rawBody: string
  const since: Date, dueDate: Date
  const request: IncomingMessage
  const server: Server
  function mailAdministrators(organizationId: string, notice: Notice): void
}
`

/** Every page of the package, by the path from the root. */
const PAGES = (await readdir(ROOT, { recursive: true }))
  .filter((path) => /^(README|CHANGELOG)\.md$|^(lib|examples|test)\/(.+\/)?[A-Z]+\.md$/.test(path))
  .filter((path) => !path.includes('node_modules'))
  .sort()
const texts = new Map(
  await Promise.all(PAGES.map(async (page) => [page, await readFile(join(ROOT, page), 'utf8')] as const)),
)

test('the pieces of TypeScript on all pages compile', async () => {
  const pieces = [...texts.values()].flatMap((text) =>
    [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, piece = '']) => piece),
  )
  assert.ok(pieces.length >= 12, `${pieces.length} pieces`)
  await compile(pieces)
})

test('every function of a door has an example that compiles', async () => {
  const examples: { name: string; code: string }[] = []
  for (const path of await readdir(join(ROOT, 'lib'), { recursive: true })) {
    if (!path.endsWith('.ts')) continue
    const text = await readFile(join(ROOT, 'lib', path), 'utf8')
    const documented = /@example\n \* ```ts\n((?: \*.*\n)*?) \* ```\n \*\/\nexport (?:async )?function (\w+)/g
    for (const [, lines = '', name = ''] of text.matchAll(documented))
      examples.push({ name, code: lines.replaceAll(/^ \* ?/gm, '') })
  }
  const names = [...(await readDoors()).values()].flat()
  assert.ok(names.length >= 35, `${names.length} functions`)
  assert.deepEqual(
    names.filter((name) => !examples.some((example) => example.name === name)),
    [],
    'have no example',
  )
  await compile(examples.filter(({ name }) => names.includes(name)).map(({ code }) => code))
})

/** Compiles pieces of code as modules, with the names of the surroundings and the functions of all doors. */
async function compile(pieces: readonly string[]): Promise<void> {
  const directory = await mkdtemp(join(import.meta.dirname, '.pages-'))
  // Of a name that two doors have, the first door's.
  const functions = new Map(
    [...(await readDoors())].reverse().flatMap(([door, names]) => names.map((name) => [name, door] as const)),
  )
  const declared = [...functions].map(
    ([name, door]) => `const ${name}: typeof import('${door.replace('.', 'business-api-kit')}').${name}`,
  )
  try {
    const surroundings = SURROUNDINGS.replace(/\}\s*$/, `${declared.join('\n')}\n}\n`)
    await writeFile(join(directory, 'surroundings.d.ts'), surroundings)
    await Promise.all(
      pieces.map((piece, index) => writeFile(join(directory, `${index}.ts`), toModule(piece))),
    )
    const files = ['surroundings.d.ts', ...pieces.map((_, index) => `${index}.ts`)]
    await writeFile(join(directory, 'tsconfig.json'), JSON.stringify({ ...TSCONFIG, files }))
    const { stdout } = await run(process.execPath, [TSC, '-p', directory]).catch((error) => error)
    assert.equal(stdout, '', stdout)
  } finally {
    await rm(directory, { recursive: true })
  }
}

/** The functions of each door of the package. */
async function readDoors(): Promise<Map<string, string[]>> {
  const { exports } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const doors = new Map<string, string[]>()
  for (const door of Object.keys(exports).filter((key) => !key.endsWith('.json'))) {
    const list = await readFile(join(ROOT, 'lib', `${door === '.' ? 'index' : door.slice(2)}.ts`), 'utf8')
    const names: string[] = []
    for (const [, exported = '', path = ''] of list.matchAll(/^export \{(.*?)\} from '(.*?)'/gms)) {
      const source = await readFile(join(ROOT, 'lib', path), 'utf8')
      const listed = exported.match(/\w+/g) ?? []
      names.push(
        ...listed.filter((name) => new RegExp(`^export (async )?function ${name}\\b`, 'm').test(source)),
      )
    }
    doors.set(door, names)
  }
  return doors
}

test('the main page stays short enough to be read to the end', () => {
  assert.ok((texts.get('README.md') ?? '').split('\n').length <= 201)
})

const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

const TSCONFIG = {
  extends: '../../tsconfig.json',
  compilerOptions: { noEmit: true, declaration: false, skipLibCheck: true },
  include: [],
}

/** A Next.js route imports the handler of the surroundings. */
function toModule(piece: string): string {
  return `${piece.replace(/^import \{ api \} from '\.\..*$/m, '')}\nexport {}\n`
}
