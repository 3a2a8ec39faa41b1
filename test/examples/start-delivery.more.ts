import assert from 'node:assert/strict'
import { EventEmitter, on } from 'node:events'
import { appendFile, readFile, rename, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { dirname } from 'node:path'
import { json } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { HttpResponse, http } from 'msw'
import { setupServer } from 'msw/node'
import { createSubscriber, openLog, start, type Workflow, workflowOf } from '../../examples/start-delivery.ts'
import type { EventData } from '../../lib/index.ts'
import { call } from './_host.ts'
import {
  assertRefusals,
  bodyOf,
  freeUrl,
  listen,
  post,
  startPlatform,
  type TestPlatform,
  temporaryPath,
} from './_platform.ts'
import { endProgram, readBaseUrl, startSource } from './_program.ts'

const SECRET = 'whsec_test'
const proposal = {
  id: 'prop_1',
  number: 'PROP-2026-0007',
  title: 'Showroom relaunch',
  status: 'accepted',
  version: 2,
  total: 12_000,
  monthlyTotal: 0,
  currency: 'TND',
}
const accepted: EventData<'proposal.accepted'> = {
  proposalId: 'prop_1',
  number: 'PROP-2026-0007',
  version: 2,
  status: 'accepted',
  proposal,
}
const completed: EventData<'project.completed'> = { projectId: 'proj_1', name: 'Showroom' }
const kickOff: Workflow = {
  kind: 'kick-off',
  subjectId: 'prop_1',
  title: 'PROP-2026-0007 Showroom relaunch',
}
const handover: Workflow = { kind: 'handover', subjectId: 'proj_1', title: 'Showroom' }

describe('examples/start-delivery with the real API', () => {
  let platform: TestPlatform
  before(async () => {
    platform = await startPlatform()
  })
  after(() => platform.close())

  test('examples/start-delivery starts each workflow once, across repeated events and crashes at any point', {
    timeout: 60_000,
  }, async (t) => {
    // The workflow service, which knows the keys of earlier requests.
    const started = new Map<string, unknown>()
    const requests = new EventEmitter()
    let onRequest = (): void => {}
    const service = createServer(async (request, response) => {
      const workflow = await json(request)
      onRequest()
      started.set(String(request.headers['idempotency-key']), workflow)
      response.writeHead(204).end()
      requests.emit('done')
    })
    t.after(() => service.close())
    const done = on(requests, 'done')

    const path = temporaryPath('deliveries.ndjson')
    const url = await freeUrl()
    const env = {
      SIGNING_SECRET: await platform.register(url),
      WORKFLOWS_URL: await listen(service),
      PORT: new URL(url).port,
    }
    const run = () => startSource(['examples/start-delivery.ts', path], env)
    const { organizationId, calls } = platform

    const first = run()
    await readBaseUrl(first)
    await call(`${platform.url}/api/v1/clients`, platform.key, { name: 'Of no concern' })
    const { id: proposalId, number } = await calls.proposals.create(organizationId, {
      title: 'Showroom relaunch',
      currency: 'TND',
      total: 12_000,
    })
    await calls.proposals.send(organizationId, { proposalId })
    await calls.proposals.accept(organizationId, { proposalId, signedBy: 'Amel Trabelsi' })
    await platform.deliver()
    await done.next()

    // The service takes the second request, and the program is killed before the answer.
    onRequest = () => first.signal('SIGKILL')
    const project = { name: 'Showroom', billingType: 'fixed', value: 12_000 } as const
    const { id: projectId } = await calls.projects.create(organizationId, project)
    await calls.projects.complete(organizationId, { projectId })
    await platform.deliver()
    await done.next()
    await first.exit
    onRequest = () => {}

    const second = run()
    await readBaseUrl(second)
    await done.next()
    await platform.redeliverAll()
    await platform.deliver()
    assert.deepEqual(
      [...started.values()],
      [
        { kind: 'kick-off', subjectId: proposalId, title: `${number} Showroom relaunch` },
        { kind: 'handover', subjectId: projectId, title: 'Showroom' },
      ],
    )
    await endProgram(second)
    assert.equal(await second.exit, 0)
    assert.equal(first.stderr() + second.stderr(), '')
    // Six events, each sent twice; two start a workflow, each started and noted once.
    assert.equal(await platform.countAttempts(), 12)
    assert.equal((await readFile(path, 'utf8')).trim().split('\n').length, 4)
  })
})

describe('examples/start-delivery by itself', () => {
  const network = setupServer()
  before(() => network.listen({ onUnhandledRequest: 'error' }))
  after(() => network.close())

  const SERVICE_URL = 'https://tracker.example/workflows'

  test('start() asks again, under the same key, until the service has taken the workflow, and then notes the start', async (t) => {
    const failed = t.mock.method(console, 'error', () => {})
    const path = temporaryPath('deliveries.ndjson')
    const log = await openLog(path)
    await log.take('evt_1', kickOff)
    const started = new Set<string>()
    const take = (key: string | null) => void started.add(String(key))
    const answers: ((key: string | null) => Response)[] = [
      () => HttpResponse.error(),
      (key) => {
        take(key)
        return HttpResponse.error()
      },
      () => new HttpResponse(null, { status: 500 }),
      () => new HttpResponse('<html>', { status: 503 }),
      ...[408, 409, 425, 429].map((status) => () => new HttpResponse(null, { status })),
      (key) => {
        take(key)
        return new HttpResponse('malformed', { status: 201 })
      },
    ]
    network.use(
      http.post(SERVICE_URL, async ({ request }) => {
        assert.deepEqual(await request.json(), kickOff)
        const answer = answers.shift() ?? (() => assert.fail('asked once more'))
        return answer(request.headers.get('idempotency-key'))
      }),
    )
    const waits: number[] = []
    await start(log, SERVICE_URL, 'evt_1', kickOff, async (ms) => {
      assert.equal((await openLog(path)).unfinished.size, 1)
      waits.push(ms)
    })
    assert.deepEqual(waits, Array(8).fill(10_000))
    assert.equal(failed.mock.callCount(), 8)
    assert.deepEqual([...started], ['evt_1'])
    assert.equal((await openLog(path)).unfinished.size, 0)
  })

  for (const status of [301, 400, 401, 404, 410, 422]) {
    test(`start() reports a workflow rejected with ${status}, and no restart begins the workflow again`, async (t) => {
      const said = t.mock.method(console, 'error', () => {})
      const path = temporaryPath('deliveries.ndjson')
      const log = await openLog(path)
      await log.take('evt_1', kickOff)
      const headers = { Location: SERVICE_URL }
      network.use(http.post(SERVICE_URL, () => new HttpResponse(null, { status, headers }), { once: true }))
      await start(log, SERVICE_URL, 'evt_1', kickOff, () => assert.fail('asked once more'))
      const line = `Gave up the kick-off of ${kickOff.title} (evt_1): rejected with ${status}`
      assert.deepEqual(
        said.mock.calls.map(({ arguments: [text] }) => text),
        [line],
      )
      assert.match(await readFile(path, 'utf8'), new RegExp(`\n{"eventId":"evt_1","refusedWith":${status}}$`))
      const again = await openLog(path)
      assert.equal(again.unfinished.size, 0)
      assert.equal(await again.take('evt_1', kickOff), false)
    })
  }

  test('start() sends at most eight requests at once for hundreds of workflows after an outage', async () => {
    const log = await openLog(temporaryPath('deliveries.ndjson'))
    let atOnce = 0
    let most = 0
    let count = 0
    network.use(
      http.post(SERVICE_URL, async () => {
        count++
        most = Math.max(most, ++atOnce)
        await new Promise((resolve) => setTimeout(resolve, 5))
        atOnce--
        return new HttpResponse()
      }),
    )
    const finish = async (): Promise<void> => {}
    const ids = Array.from({ length: 100 }, (_, index) => `evt_${index}`)
    await Promise.all(ids.map((id) => start({ ...log, finish }, SERVICE_URL, id, kickOff)))
    assert.deepEqual([count, most], [100, 8])
  })

  test('start() asks again when the start could not be noted', async (t) => {
    t.mock.method(console, 'error', () => {})
    const log = await openLog(temporaryPath('deliveries.ndjson'))
    const keys: (string | null)[] = []
    network.use(
      http.post(SERVICE_URL, ({ request }) => {
        keys.push(request.headers.get('idempotency-key'))
        return new HttpResponse()
      }),
    )
    let failures = 1
    const finish = async (eventId: string): Promise<void> => {
      if (failures-- > 0) throw new Error('ENOSPC')
      await log.finish(eventId)
    }
    await start({ ...log, finish }, SERVICE_URL, 'evt_1', kickOff, async () => {})
    assert.deepEqual(keys, ['evt_1', 'evt_1'])
  })

  test('a log gives the unfinished workflows back, around a line that was cut short anywhere', async () => {
    const path = temporaryPath('deliveries.ndjson')
    const line = JSON.stringify({ eventId: 'evt_cut', workflow: kickOff })
    for (let length = 0; length < line.length; length++) {
      await writeFile(path, `\n${JSON.stringify({ eventId: 'evt_1', workflow: kickOff })}`)
      await appendFile(path, `\n${line.slice(0, length)}`)
      const log = await openLog(path)
      assert.equal(await log.take('evt_1', kickOff), false)
      assert.equal(await log.take('evt_cut', kickOff), true)
      await log.finish('evt_1')
      const again = await openLog(path)
      assert.deepEqual([...again.unfinished], [['evt_cut', kickOff]])
      assert.equal(await again.take('evt_1', kickOff), false)
    }
  })

  test('workflowOf() starts nothing for an event of another type', () => {
    const createdAt = '2026-03-14T09:26:53.589Z'
    const data = { ...accepted, status: 'rejected' }
    assert.equal(workflowOf({ id: 'evt_1', type: 'proposal.rejected', createdAt, data }), null)
    assert.deepEqual(
      workflowOf({ id: 'evt_1', type: 'project.completed', createdAt, data: completed }),
      handover,
    )
  })
})

describe("examples/start-delivery's subscriber", () => {
  test('examples/start-delivery starts a workflow once for an event that comes many times at once', async (t) => {
    const taken: string[] = []
    const log = await openLog(temporaryPath('deliveries.ndjson'))
    const server = createSubscriber(SECRET, log, (eventId) => taken.push(eventId))
    t.after(() => server.close())
    const url = await listen(server)
    const events = ['evt_1', 'evt_2', 'evt_1', 'evt_2', 'evt_1', 'evt_1']
    const sent = events.map((id) => post(url, bodyOf(id, 'proposal.accepted', accepted), SECRET))
    assert.deepEqual(new Set(await Promise.all(sent)), new Set([204]))
    assert.deepEqual(taken.sort(), ['evt_1', 'evt_2'])
  })

  test('examples/start-delivery answers 500 to every attempt while the event cannot be written, and starts nothing', async (t) => {
    t.mock.method(console, 'error', () => {})
    const path = temporaryPath('deliveries.ndjson')
    const log = await openLog(path)
    const taken: string[] = []
    const server = createSubscriber(SECRET, log, (eventId) => taken.push(eventId))
    t.after(() => server.close())
    const url = await listen(server)
    const body = bodyOf('evt_1', 'project.completed', completed)
    await rename(dirname(path), `${dirname(path)}-away`)
    const attempts = Array.from({ length: 4 }, () => post(url, body, SECRET))
    assert.deepEqual(await Promise.all(attempts), [500, 500, 500, 500])
    assert.deepEqual(taken, [])
    await rename(`${dirname(path)}-away`, dirname(path))
    assert.equal(await post(url, body, SECRET), 204)
    assert.equal(await post(url, body, SECRET), 204)
    assert.deepEqual(taken, ['evt_1'])
    await assertRefusals(url, bodyOf('evt_2', 'project.completed', completed), SECRET)
    assert.deepEqual(taken, ['evt_1'])
  })

  test('examples/start-delivery names the missing setting', async () => {
    const program = startSource(['examples/start-delivery.ts', 'log'], { SIGNING_SECRET: SECRET })
    assert.equal(await program.exit, 2)
    assert.match(program.stderr(), /^Usage: SIGNING_SECRET=.*\n$/)
  })
})
