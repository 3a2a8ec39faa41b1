import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { createEmptyDatabase } from './_database.ts'
import { startProgram } from './examples/_program.ts'

// The quick start of the README as a reader does it, in an empty folder, once for each way of installing before the name is published: a
// packed tarball, and a tag of the repository. Only the address of the repository differs from the lines of the README.

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..')
/** npm installs what builds the package for a tag. */
const LIMITED = { timeout: 600_000 }

/** The snippets of a language between the quick start's heading and the next heading. */
async function readQuickStart(language: string): Promise<string[]> {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8')
  const section = readme.split(/^## /m).find((text) => text.startsWith('Quick start')) ?? ''
  return [...section.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(
    ([, piece = '']) => piece,
  )
}

/** Prepares what is installed into a project, beside the project. @returns what the line of the README names, `$&` for the same */
type Prepare = (project: string) => Promise<string>

/** The ways of installing, each with the line of the README in which it stands, and what the line names in this test. */
const WAYS: Readonly<Record<string, readonly [line: RegExp, prepare: Prepare]>> = {
  'a tarball': [
    /`npm install (\.\/business-api-kit-[\d.]+\.tgz)`/,
    async (project) => {
      await run('npm', ['pack', '--pack-destination', project], { cwd: ROOT })
      return '$&'
    },
  ],
  'a tag of the repository': [
    /`npm install git\+(https:\/\/git\.example\/business-api-kit\.git)#v[\d.]+`/,
    async (project) => pathToFileURL(await makeRepository(join(project, '../business-api-kit.git'))).href,
  ],
}

/** Makes a repository of the sources as they are, with the tag of the version. @returns the path */
async function makeRepository(repository: string): Promise<string> {
  const git = (...args: readonly string[]) => run('git', args, { cwd: ROOT, maxBuffer: 1 << 26 })
  const { stdout } = await git('ls-files', '-z', '--cached', '--others', '--exclude-standard')
  const files = stdout.split('\0').filter((file) => file !== '' && existsSync(join(ROOT, file)))
  for (const file of files) await cp(join(ROOT, file), join(repository, file))
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@example.com']
  const there = ['-C', repository, ...identity]
  await git(...there, 'init', '--quiet')
  await git(...there, 'add', '--all')
  await git(...there, 'commit', '--quiet', '--message', 'All')
  await git(...there, 'tag', `v${version}`)
  return repository
}

for (const [way, [pattern, prepare]] of Object.entries(WAYS)) {
  test(`the quick start gives a response and two verified webhooks, installed from ${way}`, LIMITED, (t) =>
    start(t, pattern, prepare),
  )
}

async function start(t: TestContext, pattern: RegExp, prepare: Prepare): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'business-api-quick-start-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const database = await createEmptyDatabase()
  t.after(() => database.drop())
  const secretKey = randomBytes(32).toString('base64')
  const env = { DATABASE_URL: database.url, BUSINESS_API_SECRET_KEYS: secretKey }

  const [line = '', named = ''] = pattern.exec(await readFile(join(ROOT, 'README.md'), 'utf8')) ?? []
  assert.ok(named, 'the README has the line')
  const project = join(folder, 'project')
  await mkdir(project)
  const command = line.slice(1, -1).replace(named, await prepare(project))
  const [install = '', call = ''] = await readQuickStart('sh')
  for (const own of install.split('\n').filter((each) => each.startsWith('npm ')))
    await run('sh', ['-c', own.replace('npm install business-api-kit', command)], { cwd: project })
  for (const piece of await readQuickStart('js')) {
    const name = /^\/\/ (\S+\.js)$/m.exec(piece)?.[1]
    assert.ok(name, piece)
    await writeFile(join(project, name), piece)
  }

  const server = startProgram(process.execPath, ['server.js'], env, project)
  const [key] = await server.prints(/bapi_live_\w+/)
  const curl = call.slice(call.indexOf('curl'), call.indexOf('\n#'))
  const first = await run('sh', ['-c', curl], { cwd: project, env: { ...process.env, API_KEY: key } })
  assert.equal(JSON.parse(first.stdout).data.business.name, 'Atlas Ceramics', first.stdout)

  const webhooks = startProgram(process.execPath, ['webhooks.js'], env, project)
  // The endpoint is registered before the subscriber listens, so a record created now is certainly sent to the endpoint.
  await new Promise((resolve) => setTimeout(resolve, 3000))
  await run('sh', ['-c', curl], { cwd: project, env: { ...process.env, API_KEY: key } })
  await webhooks.prints(/verified business\.created evt_/)
  await webhooks.prints(/verified client\.created evt_/)
  for (const program of [server, webhooks]) {
    assert.equal(program.stderr(), '')
    program.signal('SIGKILL')
    await program.exit
  }
}
