import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import { createAttempts, openPool } from './attempts.ts'
import { serveParent } from './delivering.ts'
import { CONCURRENCY, type Job } from './signed-post.ts'

const pgPool = openPool(process.argv[2] ?? '', CONCURRENCY + 6)
const logger = new Logger(() => () => {})
const attempt = createAttempts(pgPool)
const utils = await makeWorkerUtils({ pgPool, logger })
await utils.migrate()

serveParent({
  async publish(jobs) {
    await pgPool.query(
      `select graphile_worker.add_job('deliver', payload) from json_array_elements($1::json) as payload`,
      [JSON.stringify(jobs)],
    )
  },
  async deliver() {
    const taskList = { deliver: (payload: unknown) => attempt(payload as Job) }
    await run({ pgPool, concurrency: CONCURRENCY, noHandleSignals: true, logger, taskList })
  },
})
