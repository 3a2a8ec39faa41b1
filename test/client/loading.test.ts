import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { createContext, runInContext } from 'node:vm'
import { build } from 'esbuild'
import type * as door from '../../lib/client.ts'
import { signWebhook } from '../../lib/webhooks.ts'

const ROOT = join(import.meta.dirname, '..', '..')

/** Bundles the client's entry point for a runtime that is neither Node.js nor a browser. */
async function bundle() {
  const { metafile, outputFiles } = await build({
    entryPoints: [join(ROOT, 'lib/client.ts')],
    absWorkingDir: ROOT,
    bundle: true,
    platform: 'neutral',
    format: 'iife',
    globalName: 'door',
    metafile: true,
    write: false,
    logLevel: 'silent',
  })
  return { inputs: metafile.inputs, text: outputFiles[0]?.text ?? '' }
}

describe('business-api-kit/client', () => {
  test("the entry point doesn't load Node.js modules or packages", async () => {
    const { inputs } = await bundle()
    const imported = Object.values(inputs).flatMap(({ imports }) => imports)
    assert.deepEqual(
      imported.filter(({ external }) => external).map(({ path }) => path),
      [],
    )
    const files = Object.keys(inputs)
    assert.ok(files.includes('lib/client/create-api-client.ts'))
    assert.deepEqual(
      files.filter((file) => !/^lib\/(client|base|webhooks|access\/scopes)/.test(file)),
      [],
    )
  })

  test('the entry point works with only fetch and Web Crypto', async () => {
    const { text } = await bundle()
    const requests: string[] = []
    const web = {
      ...{ AbortController, clearTimeout, crypto, Headers, performance, Request, Response, setTimeout },
      ...{ TextDecoder, TextEncoder, URL, URLSearchParams, Uint8Array, ArrayBuffer },
      fetch: async (url: string) => {
        requests.push(url)
        return Response.json({ data: [{ id: 'inv_1' }] })
      },
    }
    const context = createContext({ ...web })
    const { createApiClient, receiveWebhook } = runInContext(`${text}; door`, context) as typeof door
    const api = createApiClient({ url: 'https://app.example/', key: 'bapi_live_x' })
    const ids: string[] = []
    for await (const { id } of api.invoices.list()) ids.push(id)
    assert.deepEqual([ids, requests], [['inv_1'], ['https://app.example/api/v1/invoices?limit=200']])

    const body = '{"id":"evt_1","type":"client.created","data":{}}'
    const request = new Request('https://edge.example/', {
      method: 'POST',
      body,
      headers: { 'X-SERVICE-Signature': signWebhook(body, 'whsec_test') },
    })
    assert.equal((await receiveWebhook(request, { secret: 'whsec_test' })).event.id, 'evt_1')
  })
})
