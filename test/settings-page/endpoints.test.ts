import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { signWebhook } from '../../lib/webhooks/signature.ts'
import type { WebhookRequest, WebhookSender } from '../../lib/webhooks/webhook-sender.ts'
import { BASE, decode, hiddenOf, ORGANIZATION, setUp, type Under } from './_page.ts'

const SECRET = /whsec_[A-Za-z0-9+/]{43}=/
const BILLING = { url: 'https://hooks.example.com/billing', description: 'Billing', wants: 'all' } as const

async function register(under: Under, headers: Record<string, string> = {}) {
  const { id } = await under.settings.endpoints.register(ORGANIZATION, {
    url: BILLING.url,
    description: 'Billing',
    headers,
  })
  return id
}

function createSender(answer: Partial<Awaited<ReturnType<WebhookSender['send']>>> = {}) {
  const requests: WebhookRequest[] = []
  const sender: WebhookSender = {
    async send(request) {
      requests.push(request)
      return { status: 204, error: null, bodyExcerpt: '', durationMs: 12, ...answer }
    },
    async close() {},
  }
  return { sender, requests }
}

test('POST /endpoints/new registers an endpoint, and shows the secret once with code to verify', async () => {
  const under = setUp()
  const fields = {
    ...BILLING,
    wants: 'some',
    type: ['invoice.paid', 'client.created'],
    'header-name': ['X-Team', ''],
    'header-value': ['7', ''],
  }
  const { status, text } = await under.submit('/endpoints/new', fields)
  assert.equal(status, 200, text)
  const [secret = ''] = SECRET.exec(text) ?? []
  const [endpoint] = await under.settings.endpoints.list(ORGANIZATION)
  assert.deepEqual(
    [endpoint?.url, endpoint?.types, endpoint?.headerNames],
    [BILLING.url, ['client.created', 'invoice.paid'], ['X-Team']],
  )
  for (const path of ['/endpoints', `/endpoints/${endpoint?.id}`, `/endpoints/${endpoint?.id}/edit`]) {
    assert.doesNotMatch((await under.get(path)).text, SECRET)
  }

  const [, code = ''] = /aria-label="JavaScript"><code>(.*?)<\/code>/s.exec(text) ?? []
  const module = await import(
    `data:text/javascript,${encodeURIComponent(`${decode(code)}\nexport { verifySignature }`)}`
  )
  const body = '{"id":"evt_1","text":"é"}'
  const headersOf = (key: string, time = Math.floor(Date.now() / 1000)) => ({
    'x-service-signature': signWebhook(body, [key], time),
  })
  assert.equal(module.verifySignature(body, headersOf(secret), secret), true)
  assert.equal(module.verifySignature(body, headersOf('whsec_other'), secret), false)
  assert.equal(module.verifySignature(body, headersOf(secret, 1_700_000_000), secret), false)
  assert.equal(module.verifySignature(`${body} `, headersOf(secret), secret), false)
  const { now } = Date
  for (const seconds of [300, 301, -300, -301]) {
    const headers = headersOf(secret, 1_700_000_000)
    Date.now = () => (1_700_000_000 + seconds) * 1000
    const isAccepted = module.verifySignature(body, headers, secret)
    Date.now = now
    assert.equal(isAccepted, Math.abs(seconds) === 300, `${seconds} s`)
  }
  for (const header of WRONG_HEADERS)
    assert.equal(
      module.verifySignature(body, header === null ? {} : { 'x-service-signature': header }, secret),
      false,
    )
})

/** No header, and headers that are none of ours. */
const WRONG_HEADERS = [
  null,
  '',
  ',',
  '=',
  't',
  't=',
  'v1',
  't=1',
  't=x,v1=y',
  'v1=aa',
  't=é,v1=é',
  `t=${'9'.repeat(5000)},v1`,
  `t=${Math.floor(Date.now() / 1000)},v1=é`,
]

type Program = (code: string) => readonly [command: string, args: readonly string[]]

/** Programs that call a sample of the page with the secret, the body and the header of the environment, and print the result. */
const SAMPLES: Readonly<Record<string, Program>> = {
  Python: (code: string) => [
    'python3',
    [
      '-c',
      `${code}\nimport os\nif "NOW" in os.environ: time.time = lambda: float(os.environ["NOW"])\nheaders = {"X-SERVICE-Signature": os.environ["HEADER"]} if "HEADER" in os.environ else {}\nprint(int(verify_signature(b"{}", headers, os.environ["SECRET"])))`,
    ],
  ],
  PHP: (code: string) => [
    'php',
    [
      '-r',
      `error_reporting(E_ALL); set_error_handler(function ($number, $text) { throw new ErrorException($text); });\n${code.replace("file_get_contents('php://input')", "'{}'")}\nif (getenv('HEADER') !== false) $_SERVER['HTTP_X_SERVICE_SIGNATURE'] = getenv('HEADER');\necho (int) verify_signature(getenv('SECRET'));`,
    ],
  ],
}

for (const [language, program] of Object.entries(SAMPLES)) {
  const isThere = spawnSync(language === 'PHP' ? 'php' : 'python3', ['--version']).status === 0
  test(`the sample for ${language} accepts our signature, and throws at no header`, {
    skip: !isThere && `no ${language}`,
  }, async () => {
    const under = setUp({ api: createBusinessApi(createMemoryStore(), { logger: false }) })
    const { text } = await under.get('/reference/webhooks')
    const [, code = ''] = new RegExp(`aria-label="${language}"><code>(.*?)</code>`, 's').exec(text) ?? []
    const [command, args] = program(decode(code))
    const secret = 'whsec_current'
    const run = (header: string | null, more: object = {}) => {
      const { PATH } = process.env
      const env = { PATH, SECRET: secret, ...(header !== null && { HEADER: header }), ...more }
      const { stdout, stderr } = spawnSync(command, args, { env, encoding: 'utf8' })
      return stdout.trim() + stderr
    }
    assert.equal(run(signWebhook('{}', secret)), '1')
    assert.equal(run(signWebhook('{}', 'whsec_other')), '0')
    if (language === 'Python') {
      const signed = signWebhook('{}', secret, 1_700_000_000)
      assert.equal(run(signed, { NOW: '1700000300' }), '1')
      assert.equal(run(signed, { NOW: '1700000301' }), '0')
    }
    for (const header of WRONG_HEADERS) assert.equal(run(header), '0', String(header).slice(0, 50))
  })
}

/** Choices that an endpoint may be without: a text of the form with its value, the fact that shows it, and texts that cannot be used. */
const TEXTS = [
  {
    choice: 'maxPerSecond',
    text: '0.5',
    value: 0.5,
    fact: 'Rate limit (deliveries per second)',
    wrong: ['0', 'fast'],
  },
]

test('POST /endpoints/new sent twice registers once', async () => {
  const under = setUp()
  const form = hiddenOf(await under.get('/endpoints/new'))
  assert.equal((await under.post('/endpoints/new', { ...form, ...BILLING })).status, 200)
  const second = await under.post('/endpoints/new', { ...form, ...BILLING })
  assert.equal(second.status, 409)
  assert.doesNotMatch(second.text, SECRET)
  assert.equal((await under.settings.endpoints.list(ORGANIZATION)).length, 1)
})

test('POST /endpoints/new with a wrong value keeps the fields but secrets, and names the field', async () => {
  const under = setUp({ settings: { localDevelopment: false } })
  const wrong: [string, Record<string, string>][] = [
    ['url', { url: 'hooks.example.com' }],
    ['url', { url: 'http://hooks.example.com/' }],
    ['url', { url: 'https://127.0.0.1/' }],
    ['description', { description: 'x'.repeat(201) }],
    ...TEXTS.flatMap(({ choice, wrong: texts }) =>
      texts.map((text): [string, Record<string, string>] => [choice, { [choice]: text }]),
    ),
    ['wants', { wants: '' }],
    ['wants', { wants: 'some' }],
    ['headers', { 'header-name': 'X-Team', 'header-value': '' }],
    ['headers', { 'header-name': 'Host', 'header-value': 'topsecret' }],
  ]
  for (const [field, fields] of wrong) {
    const { status, text } = await under.submit('/endpoints/new', {
      ...BILLING,
      url: 'https://203.0.113.9/',
      ...fields,
    })
    assert.equal(status, 422, JSON.stringify(fields))
    assert.match(text, new RegExp(`<li><a href="#${field}">`), JSON.stringify(fields))
    assert.doesNotMatch(text, /topsecret/)
    if (!('description' in fields)) assert.match(text, /value="Billing"/)
  }
  assert.deepEqual(await under.settings.endpoints.list(ORGANIZATION), [])
})

test('POST /endpoints/:id/edit keeps, replaces, removes and adds headers, and shows no value', async () => {
  const under = setUp()
  const id = await register(under, {
    'X-Keep': 'old-value-k1',
    'X-Replace': 'old-value-r1',
    'X-Gone': 'old-value-g1',
  })
  const form = await under.get(`/endpoints/${id}/edit`)
  assert.doesNotMatch(form.text, /old-value/)
  const { status, location } = await under.post(`/endpoints/${id}/edit`, {
    ...BILLING,
    description: 'Changed',
    known: ['X-Keep', 'X-Replace', 'X-Gone'],
    'known-act': ['keep', 'replace', 'remove'],
    'known-value': ['', 'r2', ''],
    'header-name': ['X-New', ''],
    'header-value': ['n1', ''],
  })
  assert.deepEqual([status, location], [303, `${BASE}/endpoints/${id}?done=changed`])
  const endpoint = await under.settings.endpoints.get(ORGANIZATION, id)
  assert.deepEqual(
    [endpoint.description, endpoint.headerNames],
    ['Changed', ['X-Keep', 'X-Replace', 'X-New']],
  )
  const { words } = await under.get(`/audit?subject=${id}`)
  assert.match(words, /Updated endpoint “Changed” \(Description, Custom headers\) Filter ada@example\.com/)
})

for (const { choice, text, value, fact } of TEXTS) {
  test(`POST /endpoints/:id/edit sets and removes ${choice}`, async () => {
    const under = setUp()
    const id = await register(under)
    const edit = (given: string) => under.submit(`/endpoints/${id}/edit`, { ...BILLING, [choice]: given })
    const chosen = async () => Reflect.get(await under.settings.endpoints.get(ORGANIZATION, id), choice)
    await edit(` ${text} `)
    assert.match((await under.get(`/audit?subject=${id}`)).words, /Updated endpoint “Billing” \(Rate limit\)/)
    assert.equal(await chosen(), value)
    assert.ok((await under.get(`/endpoints/${id}`)).words.includes(`${fact} ${text}`))
    const form = (await under.get(`/endpoints/${id}/edit`)).text
    assert.match(form, new RegExp(`name="${choice}"[^>]* value="${text.replace('.', '[.]')}"`))
    await edit('')
    assert.equal(await chosen(), null)
    assert.ok(!(await under.get(`/endpoints/${id}`)).words.includes(fact))
  })
}

test('POST /endpoints/:id/test shows the result in words, and an eleventh within a minute is rejected', async () => {
  const { sender, requests } = createSender({ status: null, error: 'connection_refused' })
  const under = setUp({ settings: { sender } })
  const id = await register(under)
  const { status, words } = await under.post(`/endpoints/${id}/test`, { type: 'invoice.paid' })
  assert.equal(status, 200)
  assert.match(
    words,
    /Couldn't deliver test event \(invoice\.paid\) Event ID evt_test_\w+ .*Connection refused/,
  )
  for (let sent = 1; sent < 10; sent++)
    assert.equal((await under.post(`/endpoints/${id}/test`, {})).status, 200)
  const refused = await under.post(`/endpoints/${id}/test`, {})
  assert.equal(refused.status, 429)
  assert.match(refused.words, /Limit of 10 test events per minute/)
  assert.equal(requests.length, 10)
})

test('the excerpt of a response that is not UTF-8 is said to be so, and that of another is not', async () => {
  for (const [bodyExcerpt, isSaid] of [
    ['\uFFFDPNG \uFFFD', true],
    ['café', false],
  ] as const) {
    const under = setUp({ settings: { sender: createSender({ status: 500, bodyExcerpt }).sender } })
    const { words } = await under.post(`/endpoints/${await register(under)}/test`, {})
    assert.equal(/Not valid UTF-8. Unreadable bytes are shown as \uFFFD/.test(words), isSaid)
  }
})

test('POST /endpoints/:id/test shows where a redirect points', async () => {
  const { sender } = createSender({ status: 301, location: '/hooks/?token=1' })
  const under = setUp({ settings: { sender } })
  const { words } = await under.post(`/endpoints/${await register(under)}/test`, {})
  assert.match(words, /Redirects to.*https:.*\/hooks\/ /)
})

test('an endpoint is paused, resumed, disabled, enabled and removed, each at its own path', async () => {
  const under = setUp()
  const id = await register(under)
  const stateOf = async () => (await under.settings.endpoints.get(ORGANIZATION, id)).state
  for (const [act, state] of [
    ['pause', 'paused'],
    ['resume', 'enabled'],
    ['disable', 'disabled'],
    ['enable', 'enabled'],
  ] as const) {
    assert.equal((await under.post(`/endpoints/${id}/${act}`, {})).status, 303, act)
    assert.equal(await stateOf(), state)
  }
  assert.match((await under.get(`/endpoints/${id}/delete`)).words, /Delete Billing\? .*No pending deliveries/)
  await under.post(`/endpoints/${id}/disable`, {})
  const conflict = await under.post(`/endpoints/${id}/pause`, {})
  assert.equal(conflict.status, 409)
  assert.match(
    conflict.words,
    /status changed in the meantime.*Endpoint disabled An administrator disabled this endpoint/,
  )
  const removed = await under.post(`/endpoints/${id}/delete`, {})
  assert.equal(removed.location, `${BASE}/endpoints?done=deleted`)
  assert.equal((await under.get(`/endpoints/${id}`)).status, 404)
})

test('POST /endpoints/:id/rotate shows the new secret once; the same form again shows none', async () => {
  const under = setUp()
  const id = await register(under)
  const form = hiddenOf(await under.get(`/endpoints/${id}/rotate`))
  const rotated = await under.post(`/endpoints/${id}/rotate`, { ...form, overlap: '24h' })
  assert.match(rotated.text, SECRET)
  assert.match((await under.get(`/endpoints/${id}`)).words, /Previous secret expires/)
  const again = await under.post(`/endpoints/${id}/rotate`, { ...form, overlap: '24h' })
  assert.equal(again.status, 409)
  assert.doesNotMatch(again.text, SECRET)
  assert.match(
    (await under.submit(`/endpoints/${id}/rotate`, { overlap: 'now' })).words,
    /Without an overlap, Billing rejects/,
  )
})

test('without a sender there is no test, and without keys to seal with no endpoint, but a word why', async () => {
  const lines: string[] = []
  const silent = () => {}
  const logger = {
    debug: silent,
    info: silent,
    error: silent,
    warn: (_: object, line: string) => void lines.push(line),
  }
  const under = setUp({ settings: { secretKeys: [] }, logger })
  assert.match((await under.get('/endpoints/new')).words, /Signing isn't configured/)
  assert.equal((await under.post('/endpoints/new', BILLING)).status, 501)
  assert.deepEqual(
    lines.filter((line) => line.includes('signing')),
    ["Settings page without signing: give createDeveloperSettings the option 'secretKeys'"],
  )
  const withKeys = setUp()
  assert.doesNotMatch((await withKeys.get(`/endpoints/${await register(withKeys)}`)).text, /Send test/)
})
