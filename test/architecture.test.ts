import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const LIB = join(dirname(fileURLToPath(import.meta.url)), '..', 'lib')

interface Import {
  readonly from: string
  /** A path below lib, or the name of a package. */
  readonly to: string
}

const files = readdirSync(LIB, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
const sources = new Map(files.map((file) => [file, readFileSync(join(LIB, file), 'utf8')]))
const imports = files.flatMap(readImports)
const doors = readDoors()
const bins = readBins()

function readImports(file: string): Import[] {
  const found = (sources.get(file) ?? '').matchAll(/^(?:import|export) [^;'"]*?from '([^']+)'/gm)
  return [...found].map(([, specifier = '']) => ({
    from: file,
    to: specifier.startsWith('.') ? relative(LIB, join(LIB, dirname(file), specifier)) : specifier,
  }))
}

function readDoors(): Set<string> {
  const { exports } = JSON.parse(readFileSync(join(LIB, '..', 'package.json'), 'utf8'))
  const targets: { default?: string }[] = Object.values(exports)
  const built = targets.flatMap(({ default: target }) => (target?.endsWith('.js') ? [target] : []))
  return new Set(built.map((target) => target.replace('./dist/', '').replace('.js', '.ts')))
}

/** The programs of the package: a process begins there, and no file imports a program. */
function readBins(): Set<string> {
  const { bin } = JSON.parse(readFileSync(join(LIB, '..', 'package.json'), 'utf8')) as { bin: object }
  const targets: string[] = Object.values(bin)
  return new Set(targets.map((target) => target.replace('dist/', '').replace('.js', '.ts')))
}

/** The room of a file is the folder; a file at the top of `lib` is a room by itself. */
function roomOf(file: string): string {
  return file.split('/')[0] ?? ''
}

test('a door is a list of names: nothing but re-exports', () => {
  for (const door of doors) {
    const rest = (sources.get(door) ?? 'no such file')
      .replaceAll(/export (type )?\{[^}]*\} from '[^']+'/g, '')
      .replaceAll(/^\/\/.*$/gm, '')
    assert.equal(rest.trim(), '', `${door} has code of its own`)
  }
})

test('nothing in lib imports a door or a program', () => {
  assert.deepEqual(
    imports.filter(({ to }) => doors.has(to) || bins.has(to)),
    [],
  )
})

test('a program is a few lines that call a room, and no other file imports the room', () => {
  for (const bin of bins) {
    assert.ok((sources.get(bin) ?? '').split('\n').length < 30, bin)
    const room = bin.replace('.ts', '')
    const importers = imports.filter(({ from, to }) => roomOf(to) === room && roomOf(from) !== room)
    assert.deepEqual([...new Set(importers.map(({ from }) => from))], [bin])
  }
})

test('each package is used in one place only', () => {
  const homes: Record<string, (file: string) => boolean> = {
    'itty-router': (file) => file === 'api/handler.ts',
    valibot: (file) => !['postgres', 'memory', 'delivery', 'sender'].includes(roomOf(file)),
    '@valibot/to-json-schema': (file) => roomOf(file) === 'openapi',
    postgres: (file) => roomOf(file) === 'postgres',
    ulid: (file) => file === 'base/ids.ts',
    undici: (file) => file === 'sender/connection.ts',
  }
  for (const { from, to } of imports) {
    if (sources.has(to) || to.startsWith('node:')) continue
    const name = to.startsWith('@') ? to : (to.split('/')[0] ?? to)
    assert.ok(homes[name]?.(from), `${from} imports ${to}`)
  }
})

/** From the ground up. A room may import itself and every room of a layer above its own line, never a sibling. */
const LAYERS: readonly (readonly string[])[] = [
  ['base'],
  ['access'],
  ['writes'],
  ['resources'],
  ['webhooks'],
  ['service.ts'],
  ['business-store.ts', 'http'],
  ['openapi'],
  [
    'api',
    'platform',
    'settings',
    'delivery',
    'sender',
    'receiver',
    'postgres',
    'memory',
    'client',
    'metrics',
    'testing',
  ],
  ['settings-page'],
  ['cli'],
]

test('every file of lib is a door, a program, or in a room of a layer', () => {
  const rooms = new Set(LAYERS.flat())
  const strays = files.filter((file) => !doors.has(file) && !bins.has(file) && !rooms.has(roomOf(file)))
  assert.deepEqual(strays, [])
})

/** Files that name a type of a sibling room, and load nothing of it. */
const TYPES_OF_SIBLINGS = new Set(['postgres/postgres-platform.ts'])

/** True if a file imports types of another file only. */
function isTypeImport(from: string, to: string): boolean {
  return new RegExp(`import type [^;]*?'\\.\\.?/[./]*${to}'`).test(sources.get(from) ?? '')
}

test('a room imports itself and the layers above it, never a sibling or a layer below', () => {
  const layerOf = new Map(LAYERS.flatMap((rooms, layer) => rooms.map((room) => [room, layer] as const)))
  for (const { from, to } of imports) {
    if (!sources.has(to) || doors.has(from) || bins.has(from)) continue
    const [room, target] = [roomOf(from), roomOf(to)]
    const [layer = -1, targetLayer = Number.POSITIVE_INFINITY] = [layerOf.get(room), layerOf.get(target)]
    const isTypeOfSibling = TYPES_OF_SIBLINGS.has(from) && isTypeImport(from, to)
    assert.ok(target === room || targetLayer < layer || isTypeOfSibling, `${from} imports ${to}`)
  }
})

test('the settings page is built on the settings alone, and on their types', () => {
  const siblings = LAYERS.at(-3) ?? []
  for (const { from, to } of imports.filter(({ from }) => roomOf(from) === 'settings-page')) {
    if (!siblings.includes(roomOf(to))) continue
    assert.equal(roomOf(to), 'settings', `${from} imports ${to}`)
    assert.ok(isTypeImport(from, to), `${from} loads ${to}`)
  }
})

test('no door but its own loads the settings page', () => {
  for (const door of [...doors].filter((each) => each !== 'settings-page.ts' && each !== 'cli.ts')) {
    const reached = new Set([door])
    for (const file of reached) {
      for (const { from, to } of imports) if (from === file && sources.has(to)) reached.add(to)
    }
    const loaded = [...reached].filter((file) => roomOf(file) === 'settings-page')
    assert.deepEqual(loaded, [], door)
  }
})

test('no file imports itself through others, not even for a type', () => {
  const graph = new Map<string, string[]>()
  for (const { from, to } of imports) {
    if (sources.has(to)) graph.set(from, [...(graph.get(from) ?? []), to])
  }
  const done = new Set<string>()
  function visit(file: string, path: readonly string[]): void {
    assert.ok(!path.includes(file), `cycle: ${[...path, file].join(' → ')}`)
    if (done.has(file)) return
    for (const next of graph.get(file) ?? []) visit(next, [...path, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
})

test('every export of lib has a doc comment', () => {
  for (const [file, source] of sources) {
    if (doors.has(file)) continue
    const lines = source.split('\n')
    lines.forEach((line, index) => {
      if (!/^export (async )?(function|class|interface|const|type) /.test(line)) return
      const before = lines[index - 1] ?? ''
      assert.match(before, /\*\/$|^\/\*\* .* \*\/$/, `${file}:${index + 1} ${line}`)
    })
  }
})

test('what coverage leaves out has nothing to run: types only', () => {
  const { exclude } = JSON.parse(readFileSync(join(LIB, '..', '.c8rc.json'), 'utf8')) as { exclude: string[] }
  for (const path of exclude.filter((pattern) => pattern.startsWith('lib/'))) {
    const file = relative('lib', path)
    const source = (sources.get(file) ?? 'const missing').replaceAll(/\/\*\*.*?\*\//gs, '')
    for (const line of source.split('\n')) {
      if (!/^[a-z]/.test(line)) continue
      assert.match(line, /^(import type|export (type|interface)|extends) /, `${file}: ${line}`)
    }
  }
})
