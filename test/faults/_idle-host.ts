// A host that has used stores and has ended the host's own pool. The host closes no store and must end by itself nevertheless.
//
//   node --import tsx test/faults/_idle-host.ts postgres://…

import postgres from 'postgres'
import { createPostgresStore } from '../../lib/postgres.ts'

const [, , url = ''] = process.argv
const pool = postgres(url)
for (const source of [url, pool]) {
  const store = createPostgresStore(source)
  // Twice, because a formerly idle connection must keep the process alive during the second use.
  for (let round = 0; round < 2; round++) {
    await Promise.all(Array.from({ length: 5 }, () => store.apiKeys.list('org_idle')))
  }
}
await pool.end()
console.log('"idle"')
