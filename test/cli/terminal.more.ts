import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import type { Sql } from 'postgres'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { programArguments, ROOT } from '../_program.ts'
import { startReceiver } from '../sender/_receiver.ts'
import { cliOn, jsonOf, SECRET_KEY } from './_cli.ts'
import { publish } from './_events.ts'

// The program in a real terminal of a given width, with simulated key presses. The terminal is created by
// `script` from util-linux.

const HAS_SCRIPT = /util-linux/.test(spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout ?? '')
const skip = HAS_SCRIPT ? false : 'needs the command script of util-linux, which makes a terminal'

let database: TestDatabase
let sql: Sql

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
})

after(() => database.drop())

interface Screen {
  /** Everything written so far. */
  text(): string
  /** Resolves once the text is on the screen. Rejects if the program exits before that. */
  shows(text: string): Promise<void>
  press(keys: string): void
  readonly exit: Promise<number>
}

function openTerminal(t: TestContext, columns: number, args: readonly string[]): Screen {
  const program = [process.execPath, ...programArguments(join(ROOT, 'lib/cli.ts')), ...args]
  const line = `stty cols ${columns} && exec ${program.map((word) => `'${word}'`).join(' ')}`
  const child = spawn('script', ['--quiet', '--return', '--flush', '--command', line, '/dev/null'], {
    cwd: ROOT,
    env: { ...process.env, DATABASE_URL: database.url, BUSINESS_API_SECRET_KEYS: SECRET_KEY },
  })
  t.after(() => child.kill())
  let written = ''
  child.stdout.on('data', (chunk) => {
    written += chunk
  })
  const exit = once(child, 'close').then(([code]) => code)
  return {
    text: () => written,
    async shows(text) {
      let hasEnded = false
      void exit.then(() => {
        hasEnded = true
      })
      while (!written.includes(text)) {
        assert.ok(!hasEnded, `ended without '${text}':\n${written}`)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    },
    press: (keys) => void child.stdin.write(keys),
    exit,
  }
}

/** Returns the lines of the final screen. Overwritten text is gone. */
function linesOf(screen: Screen): readonly string[] {
  return screen
    .text()
    .split('\r\n')
    .map((line) => line.split('\r\x1b[K').at(-1) ?? '')
}

async function createKey(org: string): Promise<string> {
  const create = ['keys', 'create', '-o', org, '--scopes', 'leads:read', '--json']
  return jsonOf(await cliOn(database.url)(...create)).id
}

describe('in a terminal', { skip }, () => {
  test('a question is asked, and yes continues', async (t) => {
    const id = await createKey('org_1')
    const screen = openTerminal(t, 80, ['keys', 'revoke', id, '-o', 'org_1'])
    await screen.shows('Go on? [y/N] ')
    screen.press('y\r')
    assert.equal(await screen.exit, 0)
    assert.match(screen.text(), new RegExp(`Revoked ${id} `))
    assert.ok(linesOf(screen).every((line) => line.length <= 80))
  })

  test('no, the end of the input and Ctrl-C change nothing', async (t) => {
    const id = await createKey('org_2')
    for (const [keys, exitCode] of [
      ['n\r', 1],
      ['\r', 1],
      ['\x04', 1],
      ['\x03', 130],
    ] as const) {
      const screen = openTerminal(t, 80, ['keys', 'revoke', id, '-o', 'org_2'])
      await screen.shows('Go on? [y/N] ')
      screen.press(keys)
      assert.equal(await screen.exit, exitCode, screen.text())
    }
    const { data } = jsonOf(await cliOn(database.url)('keys', 'list', '-o', 'org_2', '--json'))
    assert.equal(data[0].revokedAt, null)
  })

  for (const columns of [80, 120]) {
    test(`tables and help fit in ${columns} columns`, async (t) => {
      const org = `org_columns_${columns}`
      for (let key = 0; key < 3; key++) await createKey(org)
      for (const args of [
        ['audit', 'list', '-o', org],
        ['purge', '--help'],
      ]) {
        const screen = openTerminal(t, columns, args)
        assert.equal(await screen.exit, 0)
        const widths = linesOf(screen).map((line) => line.length)
        assert.ok(Math.max(...widths) <= columns, screen.text())
        assert.ok(Math.max(...widths) > columns * 0.6, 'the width is used')
      }
    })
  }

  test('deliver prints a line for each attempt, and Ctrl-C stops it', async (t) => {
    const receiver = await startReceiver(t)
    const development = ['--allow-http', '--allow-private-networks']
    const add = ['endpoints', 'add', '-o', 'org_3', '--url', `${receiver.origin}/`, ...development]
    await cliOn(database.url)(...add)
    const screen = openTerminal(t, 120, ['deliver', ...development])
    await screen.shows('Delivering.')
    await publish(sql, 'org_3')
    await screen.shows('  project.completed  dlv_')
    screen.press('\x03')
    assert.equal(await screen.exit, 0)
    assert.match(screen.text(), /Z {2}200 {2}[\d.]+ m?s {2}project\.completed {2}dlv_\w{26} {2}org_3\r\n/)
    assert.match(screen.text(), /Stopped: 1 delivered, 0 to be retried, 0 failed\r\n$/)
  })
})
