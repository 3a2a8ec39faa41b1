import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

// What the README says in TypeScript is compiled, so that nobody copies a line that is no longer true.

const ROOT = join(import.meta.dirname, '..')
const run = promisify(execFile)

/** What the README's pieces of code take from their surroundings. */
const SURROUNDINGS = `
import type { BusinessApi } from 'business-api'
import type { PostgresStore } from 'business-api/postgres'
import type { DeveloperSettings } from 'business-api/settings'
import type { TransactionalPlatform } from 'business-api/platform'
import type { Notice, WebhookSender } from 'business-api/webhooks'
import type { Express } from 'express'
import type { Sql, TransactionSql } from 'postgres'

declare global {
  const api: BusinessApi
  const app: Express
  const store: PostgresStore
  const settings: DeveloperSettings
  const platform: TransactionalPlatform<TransactionSql>
  const sender: WebhookSender
  const sql: Sql
  const secretKeys: readonly string[]
  const user: { readonly id: string }
  const id: string, endpointId: string, invoiceId: string, orderId: string, transferId: string, amount: string
  const authorization: string, secret: string, rawBody: string
  const since: Date, dueDate: Date
  const request: { readonly headers: Record<string, string | undefined> }
  function mailAdministrators(organizationId: string, notice: Notice): void
}
`

test('the README’s pieces of TypeScript compile', async () => {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8')
  const pieces = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, piece = '']) => piece)
  assert.ok(pieces.length >= 12, `${pieces.length} pieces`)
  const directory = await mkdtemp(join(import.meta.dirname, '.readme-'))
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

const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

const TSCONFIG = {
  extends: '../../tsconfig.json',
  compilerOptions: { noEmit: true, declaration: false, skipLibCheck: true },
  include: [],
}

/** The handler that a Next.js route imports is the one of the surroundings. */
function toModule(piece: string): string {
  return `${piece.replace(/^import \{ api \} from '\.\..*$/m, '')}\nexport {}\n`
}
