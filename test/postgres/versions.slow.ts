import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import postgres from 'postgres'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import type { DatabaseOptions } from '../../lib/postgres.ts'
import { startPgBouncer, WITH_PGBOUNCER } from '../faults/_pgbouncer.ts'
import { alter, live, SETTINGS } from './_life.ts'
import { FOLDERS } from './_servers.ts'

// Runs everything on all PostgreSQL servers of this machine, in every mode and with every setting. Servers with LLVM
// compile expensive plans by default, unlike the packaged server used by the other tests. None of our plans may be
// compiled, so jit = on must not make anything slower. The last lines are a table of what was run and what wasn't. If
// pg_jit_available() is false, plans can't be compiled and their test is skipped by name.

// Servers with translated messages use German for a database with the locale C.UTF-8.
process.env.LANGUAGE = 'de'
const GERMAN = ['lc_messages', 'C.UTF-8'] as const

const EXPLAIN = {
  shared_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_nested_statements': 'on',
}

type Mode = 'sessions' | 'no sessions' | 'PgBouncer'
const MODES: readonly Mode[] = ['sessions', 'no sessions', 'PgBouncer']
const VERSIONS = ['14', '15', '16', '17', '18']

/** The runs on a server by mode: how many succeeded and how many there were, and whether it can compile plans. */
type Lives = Record<Mode, { good: number; all: number }> & { llvm: boolean }

const table = new Map<string, Lives>()

const noLives = (llvm: boolean): Lives => ({
  llvm,
  sessions: { good: 0, all: 0 },
  'no sessions': { good: 0, all: 0 },
  PgBouncer: { good: 0, all: 0 },
})

if (FOLDERS.length === 0)
  test('other versions of PostgreSQL', { skip: 'no PG_BIN, and none in /usr/lib/postgresql' }, () => {})

for (const folder of ['', ...FOLDERS])
  describe(folder === '' ? 'the packaged server' : folder, () => {
    const lines: string[] = []
    let server: PostgresServer
    let name = ''
    let databases = 0

    before(async () => {
      const settings = folder === '' ? {} : EXPLAIN
      server = await startPostgres({
        ...(folder === '' ? {} : { binDirectory: folder }),
        postgresFlags: Object.entries(settings).flatMap(([setting, value]) => ['-c', `${setting}=${value}`]),
        onLog: (line) => lines.push(line),
      })
      const [row] = await administer(
        (sql) => sql`select current_setting('server_version') as version, pg_jit_available() as llvm`,
      )
      name = `${String(row?.version).split(' ')[0]} ${folder || 'packaged'}`
      table.set(name, noLives(row?.llvm))
    })
    after(() => server.stop())

    async function administer<T>(work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
      const sql = postgres(server.url, { max: 1, onnotice: () => {} })
      try {
        return await work(sql)
      } finally {
        await sql.end()
      }
    }

    /** Runs on a separate database, directly or through PgBouncer. Returns the connection string. */
    async function liveIn(mode: Mode, setting?: (typeof SETTINGS)[number]): Promise<string> {
      const lives = table.get(name)?.[mode]
      assert.ok(lives)
      lives.all++
      const url = new URL(server.url)
      url.pathname = `/life_${++databases}`
      await administer((sql) => sql`create database ${sql(url.pathname.slice(1))}`)
      if (setting) await alter(url.href, mode === 'sessions' ? 'database' : 'role', ...setting)
      const options: DatabaseOptions = mode === 'sessions' ? {} : { sessions: false, prepare: false }
      if (mode === 'PgBouncer') {
        const pooler = await startPgBouncer({ url: url.href }, 8)
        await live(pooler.url, options).finally(() => pooler.close())
      } else await live(url.href, options)
      lives.good++
      return url.href
    }

    for (const mode of MODES) {
      const skip = mode === 'PgBouncer' ? WITH_PGBOUNCER : {}

      test(`everything works: ${mode}, and no plan is compiled`, skip, async (context) => {
        lines.length = 0
        await liveIn(mode)
        if (!table.get(name)?.llvm) return context.skip('the server has no LLVM: no plan of it is judged')
        const isExplained = lines.some((line) => line.includes('Query Text:'))
        assert.ok(isExplained, 'auto_explain logs nothing')
        assert.equal(lines.filter((line) => /^\s*JIT:/.test(line)).length, 0, findCompiled(lines))
      })

      test(`everything works with German messages: ${mode}`, skip, async (context) => {
        const sql = postgres(await liveIn(mode, GERMAN), { max: 1 })
        const message = await sql`select 1 / 0`.catch((error) => error.message).finally(() => sql.end())
        if (!message.startsWith('Division durch')) context.skip('the server has no German messages')
      })

      for (const setting of SETTINGS)
        test(`everything works with ${setting.join(' = ')}: ${mode}`, skip, async () => {
          await liveIn(mode, setting)
        })
    }
  })

after(() => {
  const lived = [...table].map(([name, lives]) => [
    name,
    lives.llvm ? 'yes' : 'no: plans not judged',
    ...MODES.map((mode) => `${lives[mode].good} of ${lives[mode].all}`),
  ])
  const missing = VERSIONS.filter(
    (version) => ![...table.keys()].some((name) => name.startsWith(`${version}.`)),
  )
  const rows = [
    ['server', 'pg_jit_available()', ...MODES],
    ...lived,
    ...missing.map((version) => [version, 'not on this machine']),
  ]
  for (const row of rows)
    process.stdout.write(
      `# ${row
        .map((cell, index) => cell.padEnd(index === 0 ? 36 : 22))
        .join('')
        .trimEnd()}\n`,
    )
})

/** Returns the first compiled plan. */
function findCompiled(lines: readonly string[]): string {
  const at = lines.findIndex((line) => /^\s*JIT:/.test(line))
  return lines.slice(Math.max(0, at - 40), at + 5).join('\n')
}
