import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

// The code on the pages is compiled, so that no reader copies a line that is no longer true.

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
  const createPlatform: typeof import('business-api-kit/platform').createPlatform
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
  .filter((path) => /^(README|CHANGELOG)\.md$|^(lib|examples|test)\/(.+\/)?README\.md$/.test(path))
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
  const directory = await mkdtemp(join(import.meta.dirname, '.pages-'))
  try {
    await writeFile(join(directory, 'surroundings.d.ts'), SURROUNDINGS)
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
})

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
