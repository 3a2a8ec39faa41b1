// Webhooks as a team would build them on a job queue, here graphile-worker: a job for each delivery, signed and sent with undici over
// connections that are kept open, and a row for each attempt.
//
// `send` only signs and sends, without a queue and without a database: the limit for any delivery loop.
//
//   node --import tsx peer.ts postgres://… prepare|publish|deliver|send

import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { Logger, makeWorkerUtils, run as runWorker } from 'graphile-worker'
import pg from 'pg'
import { Agent, request } from 'undici'

const [, , url = '', what] = process.argv
const CONCURRENCY = 64

interface Job {
  readonly id: string
  readonly type: string
  readonly body: string
  readonly url: string
}

const pool = new pg.Pool({ connectionString: url, max: CONCURRENCY + 6 })
const agent = new Agent({ connections: CONCURRENCY })

async function deliver(job: Job): Promise<void> {
  const startedAt = performance.now()
  const statusCode = await send(job)
  await pool.query('insert into attempts (event_id, ms, status) values ($1, $2, $3)', [
    job.id,
    performance.now() - startedAt,
    statusCode,
  ])
  if (statusCode >= 300) throw new Error(`HTTP ${statusCode}`)
}

async function send(job: Job): Promise<number> {
  const t = Math.floor(Date.now() / 1000)
  const v1 = createHmac('sha256', 'whsec_benchmark').update(`${t}.${job.body}`).digest('hex')
  const { statusCode, body } = await request(job.url, {
    method: 'POST',
    dispatcher: agent,
    headers: {
      'content-type': 'application/json',
      'x-service-event-id': job.id,
      'x-service-event-type': job.type,
      'x-service-signature': `t=${t},v1=${v1}`,
    },
    body: job.body,
  })
  await body.dump()
  return statusCode
}

/** Sends the jobs, as many at once as the worker. */
async function sendAll(jobs: readonly Job[]): Promise<void> {
  const left = jobs.values()
  const sendNext = async (): Promise<void> => {
    for (const job of left) await send(job)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, sendNext))
}

async function readJobs(): Promise<Job[]> {
  const [message] = await once(process, 'message')
  return message.jobs
}

async function main(): Promise<void> {
  if (what === 'send') {
    const jobs = await readJobs()
    void sendAll(jobs)
    return
  }
  if (what === 'deliver') {
    await runWorker({
      pgPool: pool,
      concurrency: CONCURRENCY,
      noHandleSignals: true,
      logger: new Logger(() => () => {}),
      taskList: { deliver: (payload) => deliver(payload as Job) },
    })
    return
  }
  const utils = await makeWorkerUtils({ pgPool: pool })
  await utils.migrate()
  if (what === 'publish') {
    const jobs = await readJobs()
    await pool.query(
      `select graphile_worker.add_job('deliver', payload) from json_array_elements($1::json) as payload`,
      [JSON.stringify(jobs)],
    )
  }
  await utils.release()
}

await main()
if (what === 'deliver' || what === 'send') {
  process.on('disconnect', () => process.exit())
  process.send?.('running')
} else {
  await pool.end()
  process.exit()
}
