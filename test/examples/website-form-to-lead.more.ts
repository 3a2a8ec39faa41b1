import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { after, afterEach, before, describe, test } from 'node:test'
import { bypass, HttpResponse, http, passthrough } from 'msw'
import { setupServer } from 'msw/node'
import { pushLead, readSubmission, type Submission } from '../../examples/website-form-to-lead.ts'
import { ApiError, type Client, type Lead } from '../../lib/client.ts'
import { call } from './_host.ts'
import { startPlatform, type TestPlatform, temporaryPath } from './_platform.ts'
import { startSource } from './_program.ts'

let submissions = 0
function newSubmission(): Submission {
  submissions++
  return {
    id: `form 7/${submissions} é`,
    name: `Atlas ${submissions}`,
    email: 'hello@atlas.example',
    city: '',
  }
}

describe('examples/website-form-to-lead with the real API', () => {
  let platform: TestPlatform
  const network = setupServer()
  before(async () => {
    platform = await startPlatform()
    network.listen({ onUnhandledRequest: 'error' })
  })
  afterEach(() => network.resetHandlers())
  after(async () => {
    network.close()
    await platform.close()
  })

  async function list<Item>(resource: string): Promise<Item[]> {
    network.use(http.get('*', () => passthrough()))
    const response = await call(`${platform.url}/api/v1/${resource}?limit=200`, platform.key)
    return ((await response.json()) as { data: Item[] }).data
  }

  /** Does `work` and asserts that exactly one client and its lead were made. */
  async function assertMadeOnce(
    submission: Submission,
    work: () => Promise<{ client: Client; lead: Lead }>,
  ): Promise<void> {
    const leadsBefore = await list<Lead>('leads')
    const { client, lead } = await work()
    assert.deepEqual(
      (await list<Client>('clients')).filter(({ business }) => business.name === submission.name),
      [client],
    )
    assert.deepEqual(await list<Lead>('leads'), [lead, ...leadsBefore])
  }

  /** The failure of a request: `forward` sends the request to the platform. */
  type Fault = (forward: () => Promise<Response>) => Response | Promise<Response>

  const faults: Readonly<Record<string, Fault>> = {
    'never arrives': () => HttpResponse.error(),
    'is done and its answer is lost': async (forward) => {
      await forward()
      return HttpResponse.error()
    },
    'is done and half of its answer arrives': async (forward) =>
      new HttpResponse((await (await forward()).text()).slice(0, 40)),
    'is done and answered 500': async (forward) => {
      await forward()
      return HttpResponse.json({ error: 'Internal error', requestId: 'req_1' }, { status: 500 })
    },
    'is answered 503': () => new HttpResponse('<html>', { status: 503, headers: { 'Retry-After': '2' } }),
    'is answered 429': () =>
      HttpResponse.json(
        { error: 'Rate limit exceeded', requestId: 'req_1' },
        { status: 429, headers: { 'Retry-After': '7' } },
      ),
  }

  /**
   * Makes requests to a path fail a number of times; later and other requests go through. Gives the idempotency keys.
   */
  function fail(path: string, fault: Fault, times: number): string[] {
    const keys: string[] = []
    let failures = 0
    network.use(
      http.post('*', async ({ request }) => {
        keys.push(request.headers.get('idempotency-key') ?? '')
        const forward = (): Promise<Response> => fetch(bypass(request))
        if (!request.url.endsWith(path) || failures >= times) return forward()
        failures++
        return fault(forward)
      }),
    )
    return keys
  }

  for (const path of ['/clients', '/leads']) {
    for (const [name, fault] of Object.entries(faults)) {
      test(`examples/website-form-to-lead makes one client and one lead when a POST ${path} ${name}`, async () => {
        const submission = newSubmission()
        const keys = fail(path, fault, 2)
        await assertMadeOnce(submission, () =>
          pushLead({ ...platform.api, wait: async () => {} }, submission),
        )
        assert.equal(keys.length, 4)
        assert.match(keys[0] ?? '', /^[0-9a-f]{64}$/)
        assert.equal(new Set(keys).size, 1)
      })

      test(`examples/website-form-to-lead is run again after every POST ${path} ${name}`, async () => {
        const submission = newSubmission()
        const api = { ...platform.api, wait: async () => {} }
        await assertMadeOnce(submission, async () => {
          fail(path, fault, Number.POSITIVE_INFINITY)
          await assert.rejects(
            pushLead(api, submission),
            (error) => error instanceof ApiError && error.isTransient,
          )
          network.resetHandlers()
          network.use(http.post('*', () => passthrough()))
          return pushLead(api, submission)
        })
      })
    }
  }

  test('examples/website-form-to-lead makes one client and one lead of many runs at once, also when half the answers are lost', async () => {
    const submission = newSubmission()
    let requests = 0
    network.use(
      http.post('*', async ({ request }) => {
        requests++
        const isLost = requests % 2 === 1 && requests < 20
        const response = await fetch(bypass(request))
        return isLost ? HttpResponse.error() : response
      }),
    )
    const api = { ...platform.api, wait: async () => {} }
    await assertMadeOnce(submission, async () => {
      const runs = await Promise.all(Array.from({ length: 8 }, () => pushLead(api, submission)))
      for (const run of runs) assert.deepEqual(run, runs[0])
      return pushLead(api, submission)
    })
    assert.ok(requests > 18, `${requests} requests`)
  })

  test('examples/website-form-to-lead makes another client and lead of another submission with the same content', async () => {
    network.use(http.post('*', () => passthrough()))
    const submission = newSubmission()
    const one = await pushLead(platform.api, submission)
    const other = await pushLead(platform.api, { ...submission, id: 'another' })
    assert.notEqual(one.client.id, other.client.id)
    assert.notEqual(one.lead.id, other.lead.id)
  })

  test('examples/website-form-to-lead takes the filled fields of the form, trimmed, and leaves out empty fields', async () => {
    network.use(http.post('*', () => passthrough()))
    const submission = { ...newSubmission(), name: ' Écume 🏺 ', phone: '  ', category: 'Ceramics' }
    const { client } = await pushLead(platform.api, submission)
    const { id: _, ...business } = client.business
    assert.deepEqual(business, {
      name: 'Écume 🏺',
      category: 'Ceramics',
      city: null,
      email: 'hello@atlas.example',
      phone: null,
    })
  })

  test('examples/website-form-to-lead ends at once when the platform rejects, and reports the reason', async () => {
    const keys = fail('/none', () => HttpResponse.error(), 0)
    const refused = { ...newSubmission(), email: 'nobody' }
    await assert.rejects(pushLead(platform.api, refused), (error) => {
      assert.ok(error instanceof ApiError)
      assert.match(error.message, /responded with 422: .*email.* \(req_/)
      return !error.isTransient
    })
    await assert.rejects(pushLead({ ...platform.api, key: 'bapi_live_wrong' }, newSubmission()), (error) => {
      assert.ok(error instanceof ApiError)
      assert.match(error.message, /responded with 401/)
      assert.ok(!error.message.includes('bapi_live_wrong'))
      return !error.isTransient
    })
    assert.equal(keys.length, 2)
  })

  test('examples/website-form-to-lead ends with one line for a rejected submission or key', async () => {
    const path = temporaryPath('submission.json')
    await writeFile(path, JSON.stringify({ ...newSubmission(), email: 'nobody' }))
    const run = (key: string) =>
      startSource(['examples/website-form-to-lead.ts', path], { API_URL: platform.url, API_KEY: key })
    const programs = [
      [run(platform.key), 422],
      [run('bapi_live_wrong'), 401],
    ] as const
    for (const [program, status] of programs) {
      assert.equal(await program.exit, 2)
      const line = new RegExp(`^Cannot create a client because the API responded with ${status}: .*\\n$`)
      assert.match(program.stderr(), line)
    }
  })

  test('examples/website-form-to-lead runs as a program, twice with one result', async () => {
    const path = temporaryPath('submission.json')
    const submission = newSubmission()
    await writeFile(path, JSON.stringify(submission))
    const run = async (): Promise<string> => {
      const env = { API_URL: platform.url, API_KEY: platform.key }
      const program = startSource(['examples/website-form-to-lead.ts', path], env)
      assert.equal(await program.exit, 0, program.stderr())
      return program.stdout()
    }
    const [first, second] = await Promise.all([run(), run()])
    assert.match(first, /^lead_\w+ of cli_\w+, Atlas \d+\n$/)
    assert.equal(second, first)
  })
})

describe('examples/website-form-to-lead by itself', () => {
  const network = setupServer()
  before(() => network.listen({ onUnhandledRequest: 'error' }))
  after(() => network.close())

  /** Pushes a submission to a platform with the same answer to every POST; gives the error and the waits before. */
  async function pushTo(answer: () => Response): Promise<{ error: ApiError; waits: number[] }> {
    network.use(http.post('https://app.example/api/v1/clients', answer))
    const waits: number[] = []
    const wait = async (ms: number) => void waits.push(ms)
    const api = { url: 'https://app.example', key: 'bapi_live_secret', wait }
    try {
      await pushLead(api, newSubmission())
    } catch (error) {
      if (error instanceof ApiError) return { error, waits }
    }
    return assert.fail('was not refused')
  }

  test('examples/website-form-to-lead waits longer each time, and as long as the API asks', async () => {
    const pauses = [500, 1000, 2000, 4000, 8000]
    const { waits } = await pushTo(() => HttpResponse.error())
    assert.equal(waits.length, pauses.length)
    for (const [index, pauseMs] of pauses.entries()) {
      const ms = waits[index] ?? 0
      assert.ok(ms >= pauseMs / 2 && ms <= pauseMs, `${ms}`)
    }
    const headers = { 'Retry-After': '3' }
    for (const status of [429, 503, 409]) {
      const { waits } = await pushTo(() => new HttpResponse(null, { status, headers }))
      assert.deepEqual(waits.slice(0, 3), [3000, 3000, 3000])
    }
  })

  test('examples/website-form-to-lead does not wait for an hour, but asks for another run later', async () => {
    const headers = { 'Retry-After': '3600' }
    const { error, waits } = await pushTo(() => new HttpResponse(null, { status: 503, headers }))
    assert.deepEqual(waits, [])
    assert.equal(error.isTransient, true)
    assert.equal(error.retryAfterMs, 3_600_000)
  })

  test('examples/website-form-to-lead follows no redirect, which would become a GET', async () => {
    const headers = { Location: 'https://app.example/api/v1/clients' }
    const { error } = await pushTo(() => new HttpResponse(null, { status: 301, headers }))
    assert.match(error.message, /responded with 301/)
    assert.equal(error.isTransient, false)
  })

  test('examples/website-form-to-lead takes no other answer for a client', async () => {
    for (const answer of ['', '[]', '{"data":null}', 'null', '<html>']) {
      const { error, waits } = await pushTo(() => new HttpResponse(answer))
      assert.match(error.message, /responded with 200: not a response of the API/, answer)
      assert.equal(waits.length, 5)
    }
  })

  test('examples/website-form-to-lead says why there was no response', async () => {
    const { error } = await pushTo(() => HttpResponse.error())
    assert.match(error.message, /^Cannot create a client because the API did not respond \(.+\)$/)
  })

  test('readSubmission() names a missing field, and lets a form leave out optional fields', async () => {
    const path = temporaryPath('submission.json')
    const read = async (json: string) => {
      await writeFile(path, json)
      return readSubmission(path)
    }
    const faults: readonly [string, string][] = [
      ['{"name":"Atlas"}', 'its field id is missing'],
      ['{"id":"1"}', 'its field name is missing'],
      ['{"id":"1","name":null}', 'its field name is missing'],
      ['{"id":"1","name":"  "}', 'its field name is missing'],
      ['{"id":1,"name":"Atlas"}', 'its field id is no text'],
      ['{"id":"1","name":["Atlas"]}', 'its field name is no text'],
      ['{"id":"1","name":"Atlas","phone":21612345678}', 'its field phone is no text'],
      ['null', `${path} is no JSON object`],
      ['"Atlas"', `${path} is no JSON object`],
      ['{"id":', `${path} is no JSON object`],
    ]
    for (const [json, reason] of faults) {
      const message = `Cannot push the submission because ${reason}`
      await assert.rejects(read(json), { name: 'SubmissionError', message }, json)
    }
    const submission = { id: '1', name: 'Atlas', city: null, email: '' }
    assert.deepEqual(await read(JSON.stringify(submission)), submission)
  })

  test('examples/website-form-to-lead names the missing setting', async () => {
    const path = temporaryPath('submission.json')
    await writeFile(path, '{"id":"1","email":"hello@atlas.example"}')
    const env = { API_URL: 'http://127.0.0.1:9', API_KEY: 'bapi_live_x' }
    const cases: readonly [string[], Readonly<Record<string, string | undefined>>, RegExp][] = [
      [[path], { ...env, API_KEY: 'bapi_live_x\n' }, /^Usage: API_URL=.*\n$/],
      [[path], env, /^Cannot push the submission because its field name is missing\n$/],
      [[`${path}.none`], env, /^Cannot push the submission because its file cannot be read: ENOENT.*\n$/],
    ]
    const programs = cases.map(([args, environment, message]) => ({
      program: startSource(['examples/website-form-to-lead.ts', ...args], environment),
      message,
    }))
    for (const { program, message } of programs) {
      assert.equal(await program.exit, 2)
      assert.match(program.stderr(), message)
      assert.ok(!program.stderr().includes('bapi_live_x'))
    }
  })
})
