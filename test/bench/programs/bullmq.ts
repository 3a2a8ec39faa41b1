import { Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { createAttempts, openPool } from './attempts.ts'
import { serveParent } from './delivering.ts'
import { CONCURRENCY, type Job } from './signed-post.ts'

const [, , url = '', redisUrl = ''] = process.argv
const NAME = `business-api-bench-${process.ppid}`
const connection = new Redis(redisUrl, { maxRetriesPerRequest: null })
const attempt = createAttempts(openPool(url, CONCURRENCY))
const queue = new Queue<Job>(NAME, { connection, defaultJobOptions: { removeOnComplete: true } })
await queue.waitUntilReady()

serveParent({
  async publish(jobs) {
    for (let at = 0; at < jobs.length; at += 1000)
      await queue.addBulk(jobs.slice(at, at + 1000).map((data) => ({ name: 'deliver', data })))
  },
  async deliver() {
    const worker = new Worker<Job>(NAME, ({ data }) => attempt(data), {
      connection,
      concurrency: CONCURRENCY,
    })
    worker.on('error', (error) => process.send?.({ error: error.message }))
    await worker.waitUntilReady()
  },
})
