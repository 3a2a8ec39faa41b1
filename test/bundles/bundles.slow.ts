import assert from 'node:assert/strict'
import { type ExecFileOptions, execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { readMigrationTexts } from '../../lib/postgres/schema/migration-texts.ts'
import { verifyWebhook } from '../../lib/webhooks.ts'
import { createEmptyDatabase } from '../_database.ts'
import { installProject, type Packed, pack, ROOT } from '../_packed.ts'
import { endProgram, type Program, startProgram } from '../examples/_program.ts'
import { startReceiver } from '../sender/_receiver.ts'
import { INSTRUMENTATION, PROGRAM, START, WEBPACK } from './_host.ts'

// Hosts that are built into bundles and run elsewhere, without the sources. Each migrates an empty database and creates a client
// over HTTP, and the webhook arrives. Not part of the ordinary run: installs the bundlers.

const run = promisify(execFile)

let directory: string
let packed: Packed

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'business-api-bundles-'))
  packed = await pack(directory)
})

after(() => rm(directory, { recursive: true, force: true }))

/** A server with a failed start may stay without ever printing the awaited line. */
const LIMITED = { timeout: 10 * 60_000 }

const MANIFEST = { private: true, type: 'module' }

for (const [format, options] of [
  ['cjs', []],
  // undici is CommonJS: a bundle of modules must provide require().
  [
    'esm',
    ["--banner:js=import { createRequire } from 'module'; const require = createRequire(import.meta.url)"],
  ],
] as const) {
  test(`esbuild, one file (${format})`, LIMITED, async (t) => {
    const { project, moved } = await prepare(`esbuild-${format}`)
    const files = { 'package.json': MANIFEST, 'start.mjs': START, 'program.mjs': PROGRAM }
    await installProject(project, files, [packed.tarball])
    const file = format === 'cjs' ? 'program.cjs' : 'program.mjs'
    const common = ['program.mjs', '--bundle', '--platform=node', '--target=node20', '--log-level=warning']
    const args = [...common, `--format=${format}`, `--outfile=${moved}/${file}`, ...options]
    assert.equal(await build(join(ROOT, 'node_modules/esbuild/bin/esbuild'), args, { cwd: project }), '')
    await rm(project, { recursive: true })
    assert.deepEqual(await readdir(moved), [file])
    await assertWorks(t, [file], moved)
  })
}

test('webpack, one file', LIMITED, async (t) => {
  const { project, moved } = await prepare('webpack')
  const files = {
    'package.json': MANIFEST,
    'start.mjs': START,
    'program.mjs': PROGRAM,
    'build.mjs': WEBPACK,
  }
  await installProject(project, files, [packed.tarball, 'webpack@5'])
  await build(process.execPath, ['build.mjs'], { cwd: project })
  const out = await readdir(join(project, 'out'))
  assert.deepEqual(
    out.filter((file) => !file.endsWith('.LICENSE.txt')),
    ['program.cjs'],
  )
  await cp(join(project, 'out/program.cjs'), join(moved, 'program.cjs'))
  await rm(project, { recursive: true })
  await assertWorks(t, ['program.cjs'], moved)
})

for (const bundler of ['turbopack', 'webpack'] as const) {
  test(`Next.js, output: 'standalone', built with ${bundler}`, LIMITED, async (t) => {
    const { project, moved } = await prepare(`nextjs-${bundler}`)
    const example = join(ROOT, 'examples/nextjs')
    const isSource = (path: string) => !/[/\\](node_modules|\.next|migrate\.js)$/.test(path)
    await cp(example, project, { recursive: true, filter: isSource })
    const files = {
      'next.config.mjs': `export default { output: 'standalone', outputFileTracingRoot: import.meta.dirname }`,
      'start.mjs': START,
      'instrumentation.ts': INSTRUMENTATION,
    }
    await installProject(project, files, [packed.tarball])
    // npm itself needs to find node and sh; nothing else is given.
    const env = { PATH: process.env.PATH ?? '', NEXT_TELEMETRY_DISABLED: '1' }
    await build('npx', ['--no', 'next', 'build', `--${bundler}`], { cwd: project, env })
    await cp(join(project, '.next/standalone'), moved, { recursive: true, verbatimSymlinks: true })
    await rm(project, { recursive: true })
    await assertWorks(t, ['server.js'], moved, { HOSTNAME: '127.0.0.1', PORT: '0' })
  })
}

/** Runs a bundler. Returns the warnings; rejects with the whole output. */
async function build(command: string, args: readonly string[], options: ExecFileOptions): Promise<string> {
  try {
    return (await run(command, args, options)).stderr.toString()
  } catch (error) {
    throw new Error(`${error}\n${Reflect.get(Object(error), 'stdout')}`)
  }
}

/** A folder for the build, and another folder for the run. */
async function prepare(name: string): Promise<{ project: string; moved: string }> {
  const moved = join(directory, 'moved', name)
  await mkdir(moved, { recursive: true })
  return { project: join(directory, name), moved }
}

/** Runs a built host on an empty database; ends with the test. */
async function assertWorks(
  t: TestContext,
  args: readonly string[],
  cwd: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<void> {
  const database = await createEmptyDatabase()
  t.after(() => database.drop())
  const receiver = await startReceiver(t)
  const program = startProgram(
    process.execPath,
    args,
    {
      ...environment,
      DATABASE_URL: database.url,
      RECEIVER_URL: `${receiver.origin}/in`,
      NODE_PATH: undefined,
    },
    cwd,
  )
  t.after(() => endProgram(program))
  const [, port] = await program.prints(/http:\/\/(?:127\.0\.0\.1|localhost):(\d+)/)
  const [line] = await program.prints(/^\{"applied".*\}$/m)
  const { applied, key, secret } = JSON.parse(line)
  assert.deepEqual(applied, Object.keys(readMigrationTexts()))

  const url = `http://127.0.0.1:${port}/api/v1/clients`
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
  const created = await fetch(url, { method: 'POST', headers, body: '{"name":"Atlas Ceramics"}' })
  assert.equal(created.status, 200, await created.clone().text())
  const { data } = JSON.parse(await created.text())

  await untilReceived(receiver.requests, program)
  const [webhook] = receiver.requests
  assert.ok(webhook)
  verifyWebhook(webhook.body, String(webhook.headers['x-service-signature']), secret)
  assert.equal(JSON.parse(webhook.body).data.clientId, data.id)
}

async function untilReceived(requests: readonly unknown[], program: Program): Promise<void> {
  const endsAt = performance.now() + 15_000
  while (requests.length === 0) {
    if (performance.now() > endsAt) throw new Error(`No webhook came\n${program.stdout()}${program.stderr()}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
