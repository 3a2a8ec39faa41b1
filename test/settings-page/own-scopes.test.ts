import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineService } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { type Access, createSettingsPage } from '../../lib/settings-page.ts'

// The scopes of a host's own on the settings page.

const service = defineService({ scopes: ['meeting-rooms:read', 'meeting-rooms:write', 'invoices:write'] })
const settings = createDeveloperSettings(createMemoryStore({ service }), { allowPlaintextSecrets: true })

function page(grantableScopes?: Access['grantableScopes'], texts?: Record<string, string>) {
  return createSettingsPage(settings, {
    logger: false,
    authorize: () => ({
      organizationId: 'org_1',
      actor: 'ada',
      can: 'everything',
      grantableScopes,
      ...(texts && { locale: 'fr' }),
    }),
    ...(texts && { texts: { fr: texts } }),
  })
}

async function scopesOn(shown: ReturnType<typeof page>): Promise<readonly string[]> {
  const html = await (await shown.fetch(new Request('https://x/keys/new'))).text()
  return [...html.matchAll(/name="scope" value="([^"]+)"/g)].map(([, scope = '']) => scope)
}

test("GET /keys/new offers the service's scopes, grouped by noun with the library's", async () => {
  const all = await scopesOn(page())
  assert.equal(all.length, 10)
  assert.deepEqual(all.slice(4, 6), ['invoices:read', 'invoices:write'])
  assert.deepEqual(all.slice(-2), ['meeting-rooms:read', 'meeting-rooms:write'])
  const html = await (await page().fetch(new Request('https://x/keys/new'))).text()
  assert.match(html, /Meeting rooms/)
  const french = await page(undefined, { 'Meeting rooms': 'Salles' }).fetch(new Request('https://x/keys/new'))
  assert.match(await french.text(), /Salles/)
})

test('grantableScopes takes own scopes, offers no other, and rejects a name that the service lacks', async () => {
  assert.deepEqual(await scopesOn(page(['meeting-rooms:read'])), ['meeting-rooms:read'])
  assert.equal((await page(['rooms:read']).fetch(new Request('https://x/keys/new'))).status, 500)
})

test('GET /keys shows what a key may do in words', async () => {
  await settings.apiKeys.create('org_1', { name: 'Rooms', scopes: ['meeting-rooms:read', 'clients:write'] })
  const html = await (await page().fetch(new Request('https://x/keys'))).text()
  assert.match(html, /Meeting rooms: read; Clients: write/)
})
