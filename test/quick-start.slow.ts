import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { createEmptyDatabase } from './_database.ts'
import { startProgram } from './examples/_program.ts'

// The quick start of the README as a reader does it, in an empty folder. Only the name in the install line differs and names the
// packed package, because the package is not published.

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..')

/** The snippets of a language between the quick start's heading and the next heading. */
async function readQuickStart(language: string): Promise<string[]> {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8')
  const section = readme.split(/^## /m).find((text) => text.startsWith('Quick start')) ?? ''
  return [...section.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(
    ([, piece = '']) => piece,
  )
}

test('the quick start gives an answer and two verified webhooks', { timeout: 180_000 }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'business-api-quick-start-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const database = await createEmptyDatabase()
  t.after(() => database.drop())
  const secretKey = randomBytes(32).toString('base64')
  const env = { DATABASE_URL: database.url, BUSINESS_API_SECRET_KEYS: secretKey }

  await run('npm', ['pack', '--pack-destination', folder], { cwd: ROOT })
  const [tarball = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'))
  const [install = '', call = ''] = await readQuickStart('sh')
  const lines = install.split('\n').filter((line) => line.startsWith('npm '))
  for (const line of lines) {
    await run('sh', ['-c', line.replace('npm install business-api-kit', `npm install ./${tarball}`)], {
      cwd: folder,
    })
  }
  for (const piece of await readQuickStart('js')) {
    const name = /^\/\/ (\S+\.js)$/m.exec(piece)?.[1]
    assert.ok(name, piece)
    await writeFile(join(folder, name), piece)
  }

  const server = startProgram(process.execPath, ['server.js'], env, folder)
  const [key] = await server.prints(/bapi_live_\w+/)
  const curl = call.slice(call.indexOf('curl'), call.indexOf('\n#'))
  const first = await run('sh', ['-c', curl], { cwd: folder, env: { ...process.env, API_KEY: key } })
  assert.equal(JSON.parse(first.stdout).data.business.name, 'Atlas Ceramics', first.stdout)

  const webhooks = startProgram(process.execPath, ['webhooks.js'], env, folder)
  // The endpoint is registered before the subscriber listens, so a record created now is certainly sent to the endpoint.
  await new Promise((resolve) => setTimeout(resolve, 3000))
  await run('sh', ['-c', curl], { cwd: folder, env: { ...process.env, API_KEY: key } })
  await webhooks.prints(/verified business\.created evt_/)
  await webhooks.prints(/verified client\.created evt_/)
  for (const program of [server, webhooks]) {
    assert.equal(program.stderr(), '')
    program.signal('SIGKILL')
    await program.exit
  }
})
