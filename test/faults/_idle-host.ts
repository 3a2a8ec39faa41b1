// A host that has used its stores, has ended its own pool, and has nothing else to do: it closes no store, and has to end by
// itself all the same.
//
//   node --import tsx test/faults/_idle-host.ts postgres://…

import postgres from 'postgres'
import { createPostgresStore } from '../../lib/postgres.ts'

const [, , url = ''] = process.argv
const pool = postgres(url)
for (const source of [url, pool]) {
  const store = createPostgresStore(source)
  // Twice, as a connection that was idle has to keep the process alive while it is used again.
  for (let round = 0; round < 2; round++) {
    await Promise.all(Array.from({ length: 5 }, () => store.apiKeys.list('org_idle')))
  }
}
await pool.end()
console.log('"idle"')
