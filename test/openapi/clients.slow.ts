import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify, stripVTControlCharacters } from 'node:util'
import { type BusinessApi, createBusinessApi } from '../../lib/index.ts'
import { named } from '../_service.ts'
import { seedClients, serve, startPlatform } from '../api/_api.ts'
import { roomRoutes } from './_rooms.ts'

// Tests generated clients in languages other than TypeScript (for that, see tools.slow.ts). Each is compiled and reads
// 1,000 records page by page. Installs the generators from the package registries of their languages, skips languages
// that aren't installed, and runs one generator at a time.

const run = promisify(execFile)
const RECORDS = 1000
const GENERATOR = 'openapi-generator-cli-7.14.0.jar'

const platform = await startPlatform()
let api: BusinessApi | undefined
const server = await serve((request, response) => api?.(request, response))
api = createBusinessApi(named(platform.store, { baseUrl: server.url, routes: roomRoutes }), {
  rateLimit: false,
  logger: false,
})
const { id, key } = await platform.organization()
await seedClients(platform.store, id, RECORDS)
let directory: string

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'business-api-clients-'))
  await cp(join(import.meta.dirname, 'clients'), directory, { recursive: true })
  await writeFile(join(directory, 'openapi.json'), JSON.stringify(api?.describe()))
})
after(async () => {
  await rm(directory, { recursive: true, force: true })
  await server.close()
  await platform.close()
})

type Step = readonly [program: string, ...args: string[]]

/** Downloads OpenAPI Generator and generates a client for a language. */
const generate = (language: string, to: string, properties: string): Step[] => [
  [
    ...(['mvn', '-q', '-B', 'dependency:copy', '-Dmdep.useBaseVersion=true'] as const),
    ...['-Dartifact=org.openapitools:openapi-generator-cli:7.14.0', '-DoutputDirectory=.'],
  ],
  [
    ...(['java', '-jar', GENERATOR, 'generate', '-g', language, '-i', 'openapi.json'] as const),
    ...['-o', to, `--additional-properties=${properties}`],
  ],
]

/**
 * The commands for each generator, in the order in which one would type them. The last one prints the
 * number of records.
 */
const GENERATORS: Readonly<Record<string, readonly Step[]>> = {
  'oapi-codegen, Go': [
    ['mkdir', '-p', 'oapiclient'],
    ['go', 'tool', 'oapi-codegen', '--config', 'oapi.yaml', 'openapi.json'],
    ['go', 'run', './oapi'],
  ],
  'ogen, Go': [
    ['go', 'tool', 'ogen', '--target', 'ogenclient', '--package', 'ogenclient', '--clean', 'openapi.json'],
    ['go', 'run', './ogen'],
  ],
  'openapi-python-client': [
    ['python3', '-m', 'venv', 'httpx'],
    ['httpx/bin/pip', 'install', '-q', 'openapi-python-client==0.29.1'],
    [
      'httpx/bin/openapi-python-client',
      'generate',
      '--path',
      'openapi.json',
      '--output-path',
      'httpx-client',
    ],
    ['httpx/bin/pip', 'install', '-q', './httpx-client'],
    ['httpx/bin/python', 'page_httpx.py'],
  ],
  'OpenAPI Generator, Python': [
    ...generate('python', 'python-client', 'packageName=openapi_client'),
    ['python3', '-m', 'venv', 'generator'],
    ['generator/bin/pip', 'install', '-q', './python-client'],
    ['generator/bin/python', 'page_generator.py'],
  ],
  'OpenAPI Generator, Java': [
    ...generate('java', 'java-client', 'library=resttemplate'),
    ['cp', 'Page.java', 'java-client/src/main/java/'],
    [
      ...(['mvn', '-q', '-B', '-f', 'java-client/pom.xml', '-Dmaven.test.skip=true', 'compile'] as const),
      ...['org.codehaus.mojo:exec-maven-plugin:3.5.0:java', '-Dexec.mainClass=Page'],
    ],
  ],
  'OpenAPI Generator, Rust': [
    ...generate('rust', 'rust-client', 'packageName=openapi,supportAsync=false'),
    ['cp', 'page.rs', 'rust-client/src/main.rs'],
    ['cargo', 'run', '-q', '--manifest-path', 'rust-client/Cargo.toml'],
  ],
}

for (const [name, steps] of Object.entries(GENERATORS)) {
  test(`the client of ${name} compiles and reads ${RECORDS} records page by page`, async (t) => {
    const env = { ...process.env, API_URL: server.url, API_KEY: key }
    let printed = ''
    for (const [program, ...args] of steps) {
      try {
        printed = (await run(program, args, { cwd: directory, env, maxBuffer: 1 << 26 })).stdout
      } catch (error) {
        const { code, stdout, stderr } = error as NodeJS.ErrnoException & { stdout: string; stderr: string }
        if (code === 'ENOENT') return t.skip(`${program} isn't installed`)
        assert.fail(`${program} ${args.join(' ')}\n${stdout.slice(-3000)}\n${stderr.slice(-3000)}`)
      }
    }
    // Maven's output ends with an escape sequence.
    assert.equal(stripVTControlCharacters(printed).trim().split('\n').at(-1), String(RECORDS))
  })
}
