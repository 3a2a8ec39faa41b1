// An attempt as a team would write it: signed and sent with undici over kept connections.

import { createHmac } from 'node:crypto'
import { Agent, request } from 'undici'

/** The attempts in flight at once, of every peer. */
export const CONCURRENCY = 64

/** A delivery as a job queue holds it. */
export interface Job {
  readonly id: string
  readonly type: string
  readonly body: string
  readonly url: string
}

const agent = new Agent({ connections: CONCURRENCY })

/** Posts an event. @returns the status and the milliseconds */
export async function postSigned(job: Job): Promise<{ readonly status: number; readonly ms: number }> {
  const startedAt = performance.now()
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
  return { status: statusCode, ms: performance.now() - startedAt }
}
