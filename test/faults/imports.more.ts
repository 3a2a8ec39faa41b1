import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..', '..')
const PROBE = join(import.meta.dirname, '_import-probe.mjs')
const WITHOUT_UNDICI = join(import.meta.dirname, '_without-undici.mjs')

const NOTHING = { variables: [], timers: [], resources: [], listeners: [], globals: [] }

// As installed: built, and run without a loader.
const built = await mkdtemp(join(tmpdir(), 'business-api-imports-'))
after(() => rm(built, { recursive: true, force: true }))
await build(built)

for (const door of ['index', 'memory', 'settings', 'settings-page']) {
  test(`importing '${door}' loads neither postgres nor undici`, async () => {
    // Neither is there to be loaded.
    const directory = await install(`without-${door}`, (name) => name !== 'postgres' && name !== 'undici')
    assert.deepEqual(await probe(directory, door), NOTHING)
  })
}

test("importing 'postgres' loads postgres, and not undici", async () => {
  const without = await install('without-postgres', (name) => name !== 'postgres')
  await assert.rejects(probe(without, 'postgres'), /Cannot find package 'postgres'/)
  const directory = await install('with-postgres', (name) => name !== 'undici')
  assert.deepEqual(await probe(directory, 'postgres'), NOTHING)
})

test('a delivery loop reports missing undici at the start, and claims nothing', async () => {
  const directory = await install('without-undici', (name) => name !== 'undici')
  const { stdout } = await run(process.execPath, ['--preserve-symlinks', WITHOUT_UNDICI, directory])
  const { heard, lines, once, tested, deliveries } = JSON.parse(stdout)
  const missing = /^Cannot send webhooks because undici cannot be loaded: .*undici.*: install .* bundle/s
  assert.match(heard[0], missing)
  assert.deepEqual(lines[0], ['warn', 'Webhook deliveries held up'])
  assert.match(once, missing)
  assert.match(tested, /^Cannot send a test webhook because undici cannot be loaded: .*install /s)
  assert.deepEqual(deliveries, [
    { state: 'pending', attempts: 0 },
    { state: 'pending', attempts: 0 },
  ])
})

test('no other door loads the settings page', async () => {
  const directory = await install('without-page')
  await rm(join(directory, 'dist'))
  await cp(join(built, 'dist'), join(directory, 'dist'), { recursive: true })
  await rm(join(directory, 'dist', 'settings-page'), { recursive: true })
  assert.deepEqual(await probe(directory, 'index', 'postgres', 'memory', 'settings'), NOTHING)
  await assert.rejects(probe(directory, 'settings-page'), /Cannot find module .*settings-page/)
})

test('importing every door opens nothing, sets no timer, reads no variable and adds no listener', async () => {
  const directory = await install('all')
  assert.deepEqual(
    await probe(directory, 'index', 'postgres', 'memory', 'settings', 'settings-page'),
    NOTHING,
  )
})

test('constructing stores, the API and the settings does no more than importing them', async () => {
  const directory = await install('construct')
  assert.deepEqual(
    await probe(directory, 'index', 'postgres', 'memory', 'settings', 'settings-page', 'construct'),
    NOTHING,
  )
})

async function build(directory: string): Promise<void> {
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  const unneeded = ['--declaration', '--declarationMap', '--sourceMap'].flatMap((option) => [option, 'false'])
  const options = ['--outDir', join(directory, 'dist'), ...unneeded]
  await run(process.execPath, [compiler, '-p', join(ROOT, 'lib'), ...options])
}

/** The built package under another path, with the dependencies that pass the filter. */
async function install(
  name: string,
  isInstalled: (dependency: string) => boolean = () => true,
): Promise<string> {
  const directory = join(built, name)
  await mkdir(directory)
  await symlink(join(built, 'dist'), join(directory, 'dist'))
  await cp(join(ROOT, 'package.json'), join(directory, 'package.json'))
  const { dependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  for (const dependency of Object.keys(dependencies)) {
    if (!isInstalled(dependency)) continue
    const link = join(directory, 'node_modules', dependency)
    await mkdir(dirname(link), { recursive: true })
    await symlink(join(ROOT, 'node_modules', dependency), link)
  }
  return directory
}

async function probe(directory: string, ...words: string[]): Promise<object> {
  // With unresolved links, because node would look for a dependency beside the original otherwise.
  const { stdout } = await run(process.execPath, ['--preserve-symlinks', PROBE, directory, ...words])
  return JSON.parse(stdout)
}
