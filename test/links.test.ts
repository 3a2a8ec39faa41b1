import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, posix, relative } from 'node:path'
import { before, test } from 'node:test'
import { promisify } from 'node:util'

// Documents are read in the installed package: each link leads to a file of the package, and each command works there.

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..')

let packed: readonly string[]

before(async () => {
  // Without scripts, because a script would build; no link leads into built files.
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts']
  const { stdout } = await run('npm', args, { cwd: ROOT })
  const [report]: { files: { path: string }[] }[] = JSON.parse(stdout)
  packed = report?.files.map(({ path }) => path) ?? []
})

test('every link of a document in the package leads to a file, a folder or a heading in the package', async () => {
  const documents = packed.filter((path) => path.endsWith('.md'))
  assert.ok(documents.includes('README.md'))
  const broken: string[] = []
  for (const document of documents) {
    for (const target of linksOf(await readFile(join(ROOT, document), 'utf8'))) {
      if (!(await leadsSomewhere(document, target))) broken.push(`${document}: ${target}`)
    }
  }
  assert.deepEqual(broken, [])
})

test('no document, help or example has npx run a package that may not be installed', async () => {
  const { dependencies, devDependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const installed = new Set([...Object.keys(dependencies), ...Object.keys(devDependencies)])
  const read = await Promise.all(['lib', 'examples', '.github'].map(filesIn))
  const files = ['README.md', 'CHANGELOG.md', ...read.flat()]
  assert.ok(files.includes('lib/cli/help.ts') && files.includes('.github/CONTRIBUTING.md'))
  const offers: string[] = []
  for (const file of files) {
    // `--no` refuses a package that is not installed; npx alone would download the package.
    const runs = (await readFile(join(ROOT, file), 'utf8')).matchAll(/\b(?:npx|npm exec) (?!--no )(\S+)/g)
    for (const [line, name = ''] of runs) if (!installed.has(name)) offers.push(`${file}: ${line}`)
  }
  assert.deepEqual(offers, [])
})

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(join(ROOT, folder), { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
  return files.map((file) => relative(ROOT, file)).filter((file) => !/\/(node_modules|\.next)\//.test(file))
}

/** The targets of Markdown links, without links to other hosts. */
function linksOf(text: string): string[] {
  const prose = text.replaceAll(/^```.*?^```$/gms, '')
  const targets = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
  return targets.filter((target) => !/^[a-z]+:/.test(target))
}

async function leadsSomewhere(document: string, target: string): Promise<boolean> {
  const [path = '', heading] = target.split('#')
  const file = path === '' ? document : posix.normalize(posix.join(dirname(document), path))
  const folder = `${file.replace(/\/$/, '')}/`
  if (heading === undefined) return packed.some((each) => each === file || each.startsWith(folder))
  return packed.includes(file) && headingsOf(await readFile(join(ROOT, file), 'utf8')).includes(heading)
}

/** The anchors of headings, by the rules of GitHub and npm. */
function headingsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-'),
  )
}
