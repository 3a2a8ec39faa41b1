import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import postgres from 'postgres'
import { setScene } from './_deliveries.ts'
import { until } from './_fixture.ts'
import { createPublished, createPublisher, publishBySql } from './_publishers.ts'
import { assertDelivered, untilDelivered } from './_tally.ts'

const ORGANIZATION = 'org_publishing'

const scene = await setScene({ after: (end) => after(end) })
await scene.subscribe(ORGANIZATION, 'answering')
await scene.startDeliverer()
const published = createPublished()

test('an event is sent only after the commit of its transaction, however late', async (t) => {
  const transaction = await scene.sql.reserve()
  await transaction`begin`
  const id = await publishBySql(transaction, ORGANIZATION)
  // The deliverer has claimed later events, twice, and had every opportunity.
  await publishAndAwait()
  await publishAndAwait()
  assert.equal(await countArrivals(id), 0)

  await transaction`commit`
  transaction.release()
  published.committed.add(id)
  const afterMs = await untilArrived(id)
  t.diagnostic(`arrived ${Math.round(afterMs)} ms after the commit`)
})

test('an event is not sent when the transaction or the savepoint is lost with the connection', async () => {
  const lost = [await publishOnLostConnection(), await publishInLostSavepoint()]
  for (const id of lost) published.rolledBack.add(id)
  await publishAndAwait()

  for (const id of lost) assert.equal(await countArrivals(id), 0)
})

test('of all events of many transactions at once only committed events are sent, once each', async () => {
  const publisher = await createPublisher(scene, ORGANIZATION, published)
  await Promise.all(Array.from({ length: 100 }, (_, index) => publisher.transact(index % 2 === 0)))
  await untilDelivered(scene, 60_000)

  assert.ok(published.rolledBack.size >= 50)
  const tally = await assertDelivered(scene, published)
  assert.equal(tally.events, published.committed.size)
  assert.equal(tally.deliveries, published.committed.size)
  assert.equal(tally.arrivals, published.committed.size)
})

/** The connection ends between the event and the commit. */
async function publishOnLostConnection(): Promise<string> {
  const id = 'evt_lost_with_its_connection'
  // A separate connection and a single message: postgres.js may throw outside of every promise when a connection ends in a
  // transaction.
  const sql = postgres(scene.databaseUrl, { max: 1, fetch_types: false })
  const work = sql.unsafe(`
    begin;
    select business_api.publish_event('${ORGANIZATION}', 'project.completed', '{}', '${id}');
    select pg_terminate_backend(pg_backend_pid());
    commit`)
  await assert.rejects(work.simple())
  await sql.end({ timeout: 0 })
  return id
}

async function publishInLostSavepoint(): Promise<string> {
  let id = ''
  await scene.sql.begin(async (transaction) => {
    const work = transaction.savepoint(async (savepoint) => {
      id = await publishBySql(savepoint, ORGANIZATION)
      await savepoint`select 1 / 0`
    })
    await assert.rejects(work, { code: '22012' })
  })
  return id
}

/** Publishes an event and waits for the arrival. */
async function publishAndAwait(): Promise<void> {
  const id = await publishBySql(scene.sql, ORGANIZATION)
  published.committed.add(id)
  await untilArrived(id)
}

function untilArrived(eventId: string): Promise<number> {
  return until(`${eventId} has arrived`, async () => (await countArrivals(eventId)) > 0, 30_000)
}

async function countArrivals(eventId: string): Promise<number> {
  const ledger = await scene.receiver.ledger()
  return ledger.find((arrival) => arrival.eventId === eventId)?.count ?? 0
}
