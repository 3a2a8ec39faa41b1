// Compiles the sources once, so that no process of a run has to, and writes the files that `node --test` runs:
//
//   tsx test/_compile.ts
//
// In `.compiled` are the files of `lib` and `examples` as a module each, the files of `test` together with the helpers that they
// import, and `run/TIER/FOLDER.js`, which imports one after the other the files of a folder that belong to a tier, or a part of them.

import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { COMPILED, compiledFile, ROOT } from './_program.ts'

/** The tiers that run compiled, by the end of the names of their files. */
const TIERS = ['test', 'more']

/** The most files that share a process, because a longer run would end after all others. */
const PART = 22

/** What other programs compile, or nobody. Of the benchmark only the figures have a test. */
const FOREIGN =
  /node_modules|\.d\.ts$|\.slow\.ts$|^lib\/settings-page\/client\/|^examples\/nextjs\/|^test\/(agents|bench|browser|bundles|drivers|mounts|openapi\/tools|tools)\/(?!figures)/

const sources = (await Promise.all(['lib', 'examples', 'test'].map(listSources))).flat()
await rm(COMPILED, { recursive: true, force: true })
await build({
  absWorkingDir: ROOT,
  entryPoints: sources,
  outbase: ROOT,
  outdir: COMPILED,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  treeShaking: false,
  sourcemap: true,
  sourcesContent: false,
  plugins: [{ name: 'separate modules', setup: separate }],
})
// The scope of the compiled modules: `business-api-kit/…` is a compiled door there.
const scope = {
  name: 'business-api-kit',
  type: 'module',
  exports: { '.': './lib/index.js', './*': './lib/*.js' },
}
await writeFile(join(COMPILED, 'package.json'), JSON.stringify(scope))
for (const tier of TIERS) await writeRuns(tier)

async function listSources(directory: string): Promise<string[]> {
  const files = await readdir(join(ROOT, directory), { recursive: true })
  return files
    .map((file) => `${directory}/${file}`)
    .filter((file) => file.endsWith('.ts') && !FOREIGN.test(file))
    .sort()
}

/** Leaves every import an import, except those of a test's helpers, and tells each module the place of its source. */
function separate({ onResolve, onLoad }: Parameters<Plugin['setup']>[0]): void {
  onResolve({ filter: /.*/ }, ({ path, kind, resolveDir }) => {
    if (kind === 'entry-point') return undefined
    if (!path.startsWith('.')) return { path, external: true }
    const source = join(resolveDir, path)
    if (source.startsWith(join(ROOT, 'test/'))) return undefined
    return { path: pathToFileURL(compiledFile(source)).href, external: true }
  })
  onLoad({ filter: /\.ts$/ }, async ({ path }) => {
    const text = await readFile(path, 'utf8')
    const contents = text
      .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
      .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
    return { contents, loader: 'ts' }
  })
}

async function writeRuns(tier: string): Promise<void> {
  const directory = join(COMPILED, 'run', tier)
  await mkdir(directory, { recursive: true })
  const files = sources.filter((source) => source.endsWith(`.${tier}.ts`))
  for (const folder of new Set(files.map(dirname))) {
    const imported = files.filter((file) => dirname(file) === folder)
    for (let begin = 0; begin < imported.length; begin += PART) {
      const name = `${basename(folder)}${begin === 0 ? '' : `-${begin / PART + 1}`}.js`
      await writeFile(join(directory, name), toImports(directory, imported.slice(begin, begin + PART)))
    }
  }
}

/** Each file is a suite, so that its hooks are its own, and begins when the one before has ended. */
function toImports(directory: string, files: readonly string[]): string {
  const imports = files.map((file) => {
    const path = relative(directory, compiledFile(join(ROOT, file)))
    return `await importTests(${JSON.stringify(file)}, () => import(${JSON.stringify(path)}))\n`
  })
  return `import { after, describe } from 'node:test'

function importTests(file, load) {
  return new Promise((resolve) => {
    describe(file, async () => {
      try {
        await load()
      } finally {
        after(resolve)
      }
    })
  })
}

${imports.join('')}`
}
