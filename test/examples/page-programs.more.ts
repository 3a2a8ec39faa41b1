import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { ROOT } from '../_program.ts'
import { prepareDatabase } from './_host.ts'
import { endProgram, readBaseUrl, startProgram } from './_program.ts'

// Programs on the pages, run as they are shown. Only ports and addresses differ.

/** The first program in a language below a heading of a page. */
async function programOf(page: string, heading: string, language: string): Promise<string> {
  const text = await readFile(join(ROOT, page), 'utf8')
  const section = text.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? ''
  const [, program = ''] = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'ms').exec(section) ?? []
  return program
}

const COMMANDS = {
  sh: ['sh', '-c'],
  python: ['python3', '-c'],
  ts: [process.execPath, '--input-type=module', '-e'],
} as const

for (const [language, [program, ...flags]] of Object.entries(COMMANDS)) {
  const runtime = language === 'sh' ? 'curl' : program
  test(`the create in ${language} creates one client, and its repetition none`, {
    skip: spawnSync(runtime, ['--version']).status !== 0 && `no ${runtime}`,
  }, async () => {
    const store = createMemoryStore()
    const { apiKeys } = createDeveloperSettings(store)
    const { key } = await apiKeys.create('org_1', { name: 'Page', scopes: ['clients:read', 'clients:write'] })
    const api = createBusinessApi(store, { logger: false })
    const server = createServer((request, response) => void api(request, response))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const code = (await programOf('lib/api/README.md', 'Operations', language)).replace(
      'https://app.example.com',
      url,
    )
    const env = { ...process.env, API_KEY: key }
    const print = async () => (await promisify(execFile)(program, [...flags, code], { env })).stdout.trim()
    try {
      const first = await print()
      assert.match(first, /^\{"data":\{"id":"cli_.*"name":"Atlas Ceramics"/)
      assert.equal(await print(), first)
      const headers = { Authorization: `Bearer ${key}` }
      const list = await (await fetch(`${url}/api/v1/clients`, { headers })).json()
      assert.equal((list as { data: unknown[] }).data.length, 1)
    } finally {
      server.close()
      server.closeAllConnections()
    }
  })
}

test('the program that mounts the settings page serves the page and the API', async () => {
  const program = await programOf('lib/settings-page/README.md', 'Mounting', 'ts')
  const file = `examples/.settings-${process.pid}.ts`
  await writeFile(join(ROOT, file), program.replace('.listen(3000, ', '.listen(0, '))
  const prepared = await prepareDatabase()
  try {
    // With tsx, because a run of the whole suite has compiled its sources before the page's program is written.
    const running = startProgram(process.execPath, ['--import', 'tsx', file], {
      DATABASE_URL: prepared.databaseUrl,
      BUSINESS_API_SECRET_KEYS: randomBytes(32).toString('base64'),
    })
    const url = await readBaseUrl(running)
    const keys = await fetch(`${url}/settings/developer/keys/new`)
    assert.match(await keys.text(), /<h1 tabindex="-1">Create API key<\/h1>/)
    const reference = await fetch(`${url}/settings/developer/reference/listClients`)
    assert.match(await reference.text(), /curl http:\/\/127\.0\.0\.1:3000\/api\/v1\/clients/)
    const list = await fetch(`${url}/api/v1/clients`)
    assert.equal(list.status, 401)
    await endProgram(running)
  } finally {
    await rm(join(ROOT, file))
    await prepared.drop()
  }
})
