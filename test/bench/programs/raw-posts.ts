import { serveParent } from './delivering.ts'
import { CONCURRENCY, type Job, postSigned } from './signed-post.ts'

// The limit: signed POSTs and nothing else, no database.

const waiting: Job[] = []

async function loop(): Promise<void> {
  for (let job = waiting.pop(); job !== undefined; job = waiting.pop()) await postSigned(job)
}

serveParent({
  async publish(jobs) {
    // One by one: a call takes some hundred thousand arguments at most, and a quick machine needs more jobs.
    for (const job of jobs) waiting.push(job)
  },
  async deliver() {
    for (let index = 0; index < CONCURRENCY; index++) void loop()
  },
})
