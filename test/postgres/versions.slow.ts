import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import { live } from './_life.ts'

// A whole life on the PostgreSQL servers of this machine: of `PG_BIN`, a list of folders with `postgres` and `initdb`, and of Debian's
// layout. Those with LLVM compile plans of great cost by default, and the packaged server of the other tests has no LLVM: no plan of
// the library may be compiled.

const DEBIAN = '/usr/lib/postgresql'
const given = (process.env.PG_BIN ?? '').split(':').filter((folder) => folder !== '')
const installed = (await readdir(DEBIAN).catch(() => [])).map((version) => join(DEBIAN, version, 'bin'))
const folders = [...new Set([...given, ...installed])]

const EXPLAIN = {
  shared_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_nested_statements': 'on',
}

if (folders.length === 0)
  test('other versions of PostgreSQL', { skip: 'no PG_BIN, and none in /usr/lib/postgresql' }, () => {})

for (const folder of folders)
  describe(folder, () => {
    const lines: string[] = []

    async function start(settings: Readonly<Record<string, string>>): Promise<PostgresServer> {
      return startPostgres({
        binDirectory: folder,
        postgresFlags: Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
        onLog: (line) => lines.push(line),
      })
    }

    for (const sessions of [true, false])
      test(`a life with ${sessions ? 'sessions' : 'nothing set in the session'}, and no compiled plan`, async (context) => {
        const server = await start(EXPLAIN)
        context.after(() => server.stop())
        lines.length = 0
        await live(server.url, { sessions })
        const isExplained = lines.some((line) => line.includes('Query Text:'))
        assert.ok(isExplained, 'auto_explain logs nothing')
        assert.equal(lines.filter((line) => /^\s*JIT:/.test(line)).length, 0, findCompiled(lines))
      })
  })

/** Shows the first compiled plan. */
function findCompiled(lines: readonly string[]): string {
  const at = lines.findIndex((line) => /^\s*JIT:/.test(line))
  return lines.slice(Math.max(0, at - 40), at + 5).join('\n')
}
