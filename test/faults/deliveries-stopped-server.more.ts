import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startPostgres } from '../../examples/demo/postgres.ts'
import { migrate } from '../../lib/postgres.ts'
import { setScene } from './_deliveries.ts'
import { until } from './_fixture.ts'
import { createPublished, createPublisher, publishBurst } from './_publishers.ts'
import { assertDelivered, describeTally, untilDelivered } from './_tally.ts'

const ORGANIZATION = 'org_restarted'
/** A claim or a result that a crash has undone is repeated only after the lease. */
const LOOP = { leaseMs: 2000, retryDelaysMs: Array.from({ length: 7 }, () => 200) }

// A separate server, because stopping the server of DATABASE_URL would fail the other tests. The server writes to disk only when
// a caller waits, so that a crash undoes as much as possible.
const server = await startPostgres({ postgresFlags: ['-c', 'wal_writer_delay=10s'] })
await migrate(server.url)
const scene = await setScene({ after: (end) => after(end) }, server.url)
after(() => server.stop())
await scene.subscribe(ORGANIZATION, 'answering')
await scene.subscribe(ORGANIZATION, 'gated')
const published = createPublished()
const publisher = await createPublisher(scene, ORGANIZATION, published)
const deliverer = await scene.startDeliverer({ loop: LOOP })

for (const mode of ['fast', 'immediate'] as const) {
  test(`PostgreSQL stopped (${mode}) and started in the middle of delivery: the loop goes on by itself and nothing is lost`, async (t) => {
    await scene.receiver.hold()
    const ids = await publishBurst(scene.sql, ORGANIZATION, 200)
    for (const id of ids) published.committed.add(id)
    await publishSome()
    await until('attempts are in flight', async () => (await scene.receiver.counts()).open > 0, 30_000)

    await server.stopServer(mode)
    // Answered now, while no result can be written.
    await scene.receiver.release()
    const publishing = publishSome()
    await server.startServer()
    const startedAt = performance.now()

    await publishing
    await untilDelivered(scene, 60_000)
    const backMs = performance.now() - startedAt
    assert.equal(deliverer.exit, null, 'the deliverer has ended')
    deliverer.assertUnharmed()
    const tally = await assertDelivered(scene, published, { hasCrashed: mode === 'immediate' })
    t.diagnostic(
      `all delivered ${Math.round(backMs)} ms after the start of the server; so far ${describeTally(tally)}`,
    )
  })
}

function publishSome(): Promise<unknown> {
  return Promise.all(Array.from({ length: 20 }, () => publisher.publish()))
}
