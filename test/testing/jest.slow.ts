import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { installProject, pack, ROOT } from '../_packed.ts'

// Runs a host's test that uses the whole testing kit in Jest, set up as described in lib/testing/README.md. Installs
// Jest from the registry.

const run = promisify(execFile)
let directory: string
let tarball: string

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'business-api-jest-'))
  tarball = (await pack(directory)).tarball
})
after(() => rm(directory, { recursive: true, force: true }))

/** A host's test in which an event is published, delivered by the loop over a socket, and verified. */
const BODY = `
test('a webhook comes, signed', async () => {
  const clock = createFakeClock()
  const store = createMemoryStore({ clock })
  const settings = createDeveloperSettings(store, { localDevelopment: true, allowPlaintextSecrets: true, clock })
  const sender = createWebhookSender({ localDevelopment: true })
  const loop = createDeliveryLoop(store, sender, { allowPlaintextSecrets: true })
  const captured = await captureWebhooks({ settings, organizationId: 'org_42', clock })
  await createPlatform(store, { clock }).clients.create('org_42', { name: 'Atlas Ceramics' })
  await loop.runOnce()
  const { data } = await captured.next('client.created')
  expect(data.client.business.name).toBe('Atlas Ceramics')
  expect(typeof createBusinessApi(store).fetch).toBe('function')
  expect(typeof createPostgresStore).toBe('function')
  await captured.close()
  await sender.close()
})
`
const NAMES: Readonly<Record<string, string>> = {
  'business-api-kit': 'createBusinessApi',
  'business-api-kit/memory': 'createMemoryStore',
  'business-api-kit/platform': 'createPlatform',
  'business-api-kit/postgres': 'createPostgresStore',
  'business-api-kit/settings': 'createDeveloperSettings',
  'business-api-kit/testing': 'captureWebhooks, createFakeClock',
  'business-api-kit/webhooks': 'createDeliveryLoop, createWebhookSender',
}
const write = (line: (names: string, door: string) => string): string =>
  Object.entries(NAMES)
    .map(([door, names]) => line(names, door))
    .join('\n') + BODY

/** Returns the n-th snippet in the README's section on Jest. */
async function readPiece(index: number): Promise<string> {
  const page = await readFile(join(ROOT, 'lib/testing/README.md'), 'utf8')
  const section = page.split(/^## /m).find((text) => text.startsWith('Jest')) ?? ''
  const [, piece] = [...section.matchAll(/^```\w+\n(.*?)^```$/gms)][index] ?? assert.fail(`no piece ${index}`)
  return piece ?? ''
}

async function runJest(project: string, command: string): Promise<string> {
  const { stderr } = await run('sh', ['-c', command], { cwd: project }).catch((error) =>
    assert.fail(error.stderr),
  )
  return stderr
}

test("Jest with ES modules runs a host's test using the command in the README", async () => {
  const project = join(directory, 'modules')
  const files = {
    'package.json': { type: 'module', private: true },
    'jest.config.js': 'export default {}\n',
    'webhook.test.js': write((names, door) => `import { ${names} } from '${door}'`),
  }
  await installProject(project, files, ['jest@30', tarball])
  assert.match(await runJest(project, (await readPiece(0)).trim()), /1 passed/)
})

test("Jest with CommonJS and Babel runs a host's test using the configuration in the README", async () => {
  const project = join(directory, 'commonjs')
  const files = {
    'package.json': { private: true },
    'jest.config.js': await readPiece(1),
    'webhook.test.js': write((names, door) => `const { ${names} } = require('${door}')`),
  }
  await installProject(project, files, ['jest@30', '@babel/preset-env@7', tarball])
  assert.match(await runJest(project, 'npx --no jest'), /1 passed/)
})
