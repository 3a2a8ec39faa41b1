import PgBoss from 'pg-boss'
import { createAttempts, openPool } from './attempts.ts'
import { serveParent } from './delivering.ts'
import { CONCURRENCY, type Job } from './signed-post.ts'

// Own loops over fetch and complete, without a pause while there are jobs. A worker of pg-boss 10 begins at most one batch in
// each polling interval, of half a second at least, unless a batch takes longer: the rate depends on the size of the batches.

const LOOPS = 4
const QUEUE = 'deliver'
const REST_MS = 20

const url = process.argv[2] ?? ''
const attempt = createAttempts(openPool(url, CONCURRENCY))
const boss = new PgBoss({ connectionString: url, max: 10 })
boss.on('error', (error) => process.send?.({ error: error.message }))
await boss.start()
await boss.createQueue(QUEUE)

async function loop(): Promise<never> {
  for (;;) {
    const jobs = await boss.fetch<Job>(QUEUE, { batchSize: CONCURRENCY / LOOPS })
    await Promise.all(jobs.map(({ data }) => attempt(data)))
    if (jobs.length > 0)
      await boss.complete(
        QUEUE,
        jobs.map(({ id }) => id),
      )
    else await new Promise((resolve) => setTimeout(resolve, REST_MS))
  }
}

serveParent({
  async publish(jobs) {
    await boss.insert(jobs.map((data) => ({ name: QUEUE, data })))
  },
  async deliver() {
    for (let index = 0; index < LOOPS; index++) void loop()
  },
})
