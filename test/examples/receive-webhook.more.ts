import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import { signWebhook } from '../../lib/webhooks.ts'
import { endProgram, type Program, readBaseUrl, startSource } from './_program.ts'

const CURRENT = 'whsec_current'
const PREVIOUS = 'whsec_previous'

let program: Program
let url: string

before(async () => {
  program = startSource(['examples/receive-webhook.ts'], { SIGNING_SECRET: CURRENT, PORT: '0' })
  url = await readBaseUrl(program)
})
after(() => endProgram(program))

/** The body of an event. */
function bodyOf(id: string, type = 'invoice.paid'): string {
  const data = { invoiceId: 'inv_1', number: 'F-2026-é' }
  return JSON.stringify({ id, type, createdAt: '2026-03-14T09:26:53.589Z', data })
}

/** Posts a body with a signature header; gives the status. */
async function post(body: string, signature: string | null, to = url): Promise<number> {
  const headers = {
    'Content-Type': 'application/json',
    ...(signature && { 'X-SERVICE-Signature': signature }),
  }
  return (await fetch(to, { method: 'POST', headers, body })).status
}

/** Resolves when the program has written a text to stderr, after an earlier position. */
async function printsError(before: number, text: string): Promise<void> {
  const deadline = Date.now() + 5000
  while (!program.stderr().slice(before).includes(text)) {
    assert.ok(Date.now() < deadline && !program.hasEnded(), `has not printed ${text}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/** A JSON text of so many bytes. */
function pad(json: string, bytes: number): string {
  return json + ' '.repeat(bytes - Buffer.byteLength(json))
}

/** Counts the printed lines of an event, once a line of a later event was printed. */
async function countLines(id: string): Promise<number> {
  const later = `${id}_later`
  const body = bodyOf(later)
  assert.equal(await post(body, signWebhook(body, CURRENT)), 204)
  await program.prints(new RegExp(`${later}\\b`))
  return program
    .stdout()
    .split('\n')
    .filter((line) => line.split(' ').includes(id)).length
}

test('examples/receive-webhook answers 2xx to a signed webhook and prints one line', async () => {
  const body = bodyOf('evt_signed')
  assert.equal(await post(body, signWebhook(body, CURRENT)), 204)
  await program.prints(/^2026-03-14T09:26:53\.589Z invoice\.paid evt_signed number F-2026-é$/m)
  const other = bodyOf('evt_other', 'client.created')
  assert.equal(await post(other, signWebhook(other, CURRENT)), 204)
  await program.prints(/^2026-03-14T09:26:53\.589Z client\.created evt_other$/m)
})

test('examples/receive-webhook does nothing twice for an event that is sent again', async () => {
  const body = bodyOf('evt_again')
  for (let attempt = 1; attempt <= 3; attempt++) {
    assert.equal(await post(body, signWebhook(body, CURRENT)), 204)
  }
  assert.equal(await countLines('evt_again'), 1)
})

test('examples/receive-webhook answers 400 to a request that is not signed, tampered with, stale or signed with another secret', async () => {
  const body = bodyOf('evt_refused')
  const now = Math.floor(Date.now() / 1000)
  const signed = signWebhook(body, CURRENT)
  const refused: [signature: string | null, code: string, sent?: string][] = [
    [null, 'signature_missing'],
    ['secret', 'signature_malformed'],
    [signed, 'signature_mismatch', body.replace('F-2026', 'F-2027')],
    [signed, 'signature_mismatch', JSON.stringify(JSON.parse(body), null, 2)],
    [signWebhook(body, 'whsec_other'), 'signature_mismatch'],
    [signWebhook(body, PREVIOUS), 'signature_mismatch'],
    [signWebhook(body, CURRENT, now - 400), 'signature_expired'],
    [signWebhook(body, CURRENT, now + 400), 'signature_expired'],
  ]
  for (const [signature, code, sent = body] of refused) {
    const printed = program.stderr().length
    assert.equal(await post(sent, signature), 400, code)
    await printsError(printed, `Refused a webhook: ${code}\n`)
  }
  assert.equal(await countLines('evt_refused'), 0)
})

test('examples/receive-webhook accepts two signatures with either secret', async () => {
  for (const [id, secrets] of [
    ['evt_current_first', [CURRENT, PREVIOUS]],
    ['evt_current_second', ['whsec_next', CURRENT]],
  ] as const) {
    const body = bodyOf(id)
    assert.equal(await post(body, signWebhook(body, secrets)), 204)
    await program.prints(new RegExp(id))
  }
})

test('examples/receive-webhook takes several secrets, and accepts a signature by any', async () => {
  const rotating = startSource(['examples/receive-webhook.ts'], {
    SIGNING_SECRET: `${CURRENT}, ${PREVIOUS},`,
    PORT: '0',
  })
  const to = await readBaseUrl(rotating)
  for (const secret of [CURRENT, PREVIOUS]) {
    const body = bodyOf(`evt_${secret}`)
    assert.equal(await post(body, signWebhook(body, secret), to), 204)
    await rotating.prints(new RegExp(`evt_${secret}`))
  }
  await endProgram(rotating)
  assert.equal(await rotating.exit, 0)
  assert.equal(rotating.stderr(), '')
})

test('examples/receive-webhook answers 413 to a body over 1 MiB and 405 to another method, and lives on', async () => {
  const body = pad(bodyOf('evt_large'), 1024 * 1024 + 1)
  assert.equal(await post(body, signWebhook(body, CURRENT)), 413)
  assert.equal((await fetch(url)).status, 405)
  const largest = pad(bodyOf('evt_largest'), 1024 * 1024)
  assert.equal(await post(largest, signWebhook(largest, CURRENT)), 204)
  assert.equal(await countLines('evt_large'), 0)
})

test('examples/receive-webhook answers 400 to a signed body that is no event', async () => {
  for (const body of ['null', '[]', '{}', bodyOf('evt_half').slice(0, -1)]) {
    assert.equal(await post(body, signWebhook(body, CURRENT)), 400, body)
  }
})

test('examples/receive-webhook survives a sender that leaves in the middle of the body', async () => {
  const { port } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"id":')
  await new Promise((resolve) => socket.on('connect', resolve))
  const printed = program.stderr().length
  socket.resetAndDestroy()
  await printsError(printed, 'Refused a webhook: webhook_malformed')
  assert.equal(await countLines('evt_after_reset'), 0)
})

test('examples/receive-webhook names SIGNING_SECRET when the variable is not set', async () => {
  for (const SIGNING_SECRET of [undefined, '', ' , ']) {
    const unset = startSource(['examples/receive-webhook.ts'], { SIGNING_SECRET })
    assert.equal(await unset.exit, 2)
    assert.equal(unset.stderr(), "Set SIGNING_SECRET to the endpoint's signing secret\n")
  }
})
