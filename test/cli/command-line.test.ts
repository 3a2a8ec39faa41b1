import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, test } from 'node:test'
import { COMMANDS } from '../../lib/cli/commands.ts'
import { VERSION } from '../../lib/version.ts'
import { assertFailed, cli, PASSWORD, textOf } from './_cli.ts'

// What can be judged without a database.

const COMMAND_LINES = COMMANDS.flatMap((entry) =>
  'commands' in entry
    ? entry.commands.map((command) => ({ words: [entry.name, command.name], command }))
    : [{ words: [entry.name], command: entry }],
)

describe('--help', () => {
  test('of the program names every command and what the environment may hold', async () => {
    for (const args of [[], ['--help'], ['-h'], ['help']]) {
      const help = textOf(await cli(args))
      for (const { words } of COMMAND_LINES) assert.match(help, new RegExp(`^  ${words.join(' ')}  `, 'm'))
      assert.match(help, /DATABASE_URL/)
      assert.match(help, /BUSINESS_API_SECRET_KEYS/)
      assert.match(help, /Examples\n {2}# /)
    }
  })

  test('of a group names its commands', async () => {
    for (const args of [
      ['keys', '--help'],
      ['help', 'keys'],
    ]) {
      const help = textOf(await cli(args))
      assert.match(help, /^business-api keys: /)
      for (const name of ['create', 'list', 'revoke']) assert.match(help, new RegExp(`keys ${name} `))
      assert.match(help, /Examples\n {2}# /)
    }
  })

  for (const { words, command } of COMMAND_LINES) {
    test(`of ${words.join(' ')} tells its flags, and its examples can be carried out`, async () => {
      const help = textOf(await cli([...words, '--help']))
      assert.match(help, new RegExp(`^business-api ${words.join(' ')}: `))
      const flags = [...help.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, flag]) => flag)
      assert.ok(flags.includes('--json') && flags.includes('--database-url') && flags.includes('--help'))
      for (const [, line = ''] of help.matchAll(/^ {2}(business-api .*)$/gm)) {
        for (const [flag] of line.matchAll(/ --[a-z-]+(?=[ =\n]|$)/g)) {
          assert.ok(flags.includes(flag.trim()) || /\| jq|psql/.test(line), `${flag} in: ${line}`)
        }
      }
      assert.ok(command.examples.length > 0)
      assert.ok(
        help.split('\n').every((line) => line.length <= 130),
        'a line is too long to read',
      )
    })
  }

  test('wins over everything else on the command line', async () => {
    const help = textOf(await cli(['keys', 'create', '--bogus', '--help']))
    assert.match(help, /--organization O/)
    assert.doesNotMatch(help, /bogus/)
  })

  test('--version is that of the package', async () => {
    assert.equal(textOf(await cli(['--version'])), `${VERSION}\n`)
  })
})

test('--help warns of flags whose value other users of the machine can read', async () => {
  for (const args of [['status'], ['endpoints', 'add']]) {
    const help = textOf(await cli([...args, '--help']))
    assert.match(help, /^ {2}--database-url URL .*other users of this machine/m)
    if (args[1]) assert.match(help, /^ {2}--header 'NAME: VALUE' .*other users of this machine/m)
  }
})

describe('a command line that cannot be understood', () => {
  const refused: readonly (readonly [line: string, about: RegExp])[] = [
    ['migrat', /Unknown command 'migrat': did you mean 'migrate'\? \(see: business-api --help\)/],
    ['constructor', /Unknown command 'constructor' \(/],
    ['kesy list', /Unknown command 'kesy': did you mean 'keys'\?/],
    ['key list', /Unknown command 'key': did you mean 'keys'\?/],
    ['keys', /Name what to do with keys: create, list, rotate, revoke \(see: business-api keys --help\)/],
    ['keys --json', /Name what to do with keys/],
    ['keys creat', /Unknown command 'keys creat': did you mean 'create'\?/],
    ['--json status', /Name a command before '--json'/],
    ['status --jason', /Unknown flag '--jason': did you mean '--json'\? \(see: business-api status --help\)/],
    ['status --nothing-like-it', /Unknown flag '--nothing-like-it' \(/],
    ['status -x', /Unknown flag '-x'/],
    ['status --json=yes', /--json takes no value/],
    ['status --json --json', /--json is given twice/],
    ['status surplus', /Unexpected argument 'surplus'/],
    ['keys revoke one two --organization O', /Unexpected argument 'two'/],
    ['keys revoke --organization O', /Missing ID/],
    ['keys list', /Missing --organization O/],
    ['keys list --organization', /--organization needs a value: --organization O/],
    ['keys list --organization --json', /--organization needs a value/],
    ['keys list --organization=', /--organization needs a value/],
    ['keys create --organization O', /Missing --scopes a,b/],
    [
      'keys create --organization O --scopes a --expires soon',
      /Cannot use --expires as it must be a duration/,
    ],
    ['keys create --organization O --scopes a --expires 2027-02-99', /Cannot use --expires/],
    ['endpoints add --organization O', /Missing --url URL/],
    [
      'endpoints rotate we_1 --organization O --overlap 24',
      /Cannot use --overlap as it must be a duration like/,
    ],
    ['deliveries list --organization O --limit ten', /Cannot use --limit as it must be a whole number/],
    ['deliveries list --organization O --since 2026-01-31T09:00', /Cannot use --since/],
    ['deliveries list --organization O --since 2026-02-31', /Cannot use --since/],
    ['deliveries list --organization O --since 2026-02-31T00:00:00Z', /Cannot use --since/],
    ['deliveries list --organization O --since 36500d', /Cannot use --since .* from 1970 to 9999/],
    [
      'deliveries list --organization O --since 1h --until 2h',
      /Give an --until that is later than --since \(see: business-api deliveries list --help\)/,
    ],
    ['deliveries recover --organization O --since 2026-01-31 --until 2026-01-31', /Give an --until/],
    [
      'keys create --organization O --scopes leads:read --expires 2020-01-01',
      /Cannot use --expires as it must be in the future/,
    ],
    ['keys rotate key_1 --organization O --overlap 31d', /Cannot use --overlap as it must be at most 30d/],
    [
      'endpoints rotate we_1 --organization O --overlap 721h',
      /Cannot use --overlap as it must be at most 30d/,
    ],
    ['deliver --retention 0', /Cannot use --retention as it must be 'never' or a duration/],
    ['purge', /Missing --older-than DURATION/],
    ['purge --older-than 999999999w', /Cannot use --older-than as it must be a duration .*, at most 36500d/],
    ['deliver --retention 36501d', /Cannot use --retention .*, at most 36500d/],
    ['purge --older-than 0', /Cannot use --older-than as it must be longer than 0/],
    ['migrate --dry-run --print', /Give one of --dry-run and --print/],
  ]
  for (const [line, about] of refused) {
    test(`${line}: one line, and 2`, async () => {
      const result = await cli(line.split(' '), { env: { DATABASE_URL: 'postgres://127.0.0.1:1/none' } })
      assertFailed(result, 2, about)
      assert.equal(result.stdout, '')
    })
  }

  test('repeats no value that may be a secret', async () => {
    const args = ['endpoints', 'add', '--organization', 'O', '--url', 'https://x.example/']
    const env = { DATABASE_URL: 'postgres://127.0.0.1:1/none', BUSINESS_API_SECRET_KEYS: 'c'.repeat(64) }
    for (const header of [PASSWORD, `:${PASSWORD}`, `a b: ${PASSWORD}`]) {
      assertFailed(
        await cli([...args, '--header', header], { env }),
        2,
        /Cannot use --header as it must be like 'Name: value'/,
      )
    }
    const twice = ['--header', `A: ${PASSWORD}`, '--header', 'a: other']
    assertFailed(await cli([...args, ...twice], { env }), 2, /--header as one name is given twice/)
    const keys = { ...env, BUSINESS_API_SECRET_KEYS: PASSWORD }
    assertFailed(
      await cli(args, { env: keys }),
      2,
      /Cannot use BUSINESS_API_SECRET_KEYS as it must be keys of 32 bytes/,
    )
    assertFailed(
      await cli(args, { env: { DATABASE_URL: env.DATABASE_URL } }),
      2,
      /Set BUSINESS_API_SECRET_KEYS .*openssl/,
    )
  })
})

describe('DATABASE_URL', () => {
  test('is asked for where there is none', async () => {
    assertFailed(
      await cli(['status']),
      2,
      /Set DATABASE_URL to a PostgreSQL database, or pass --database-url/,
    )
  })

  const unusable = [
    PASSWORD,
    `mysql://user:${PASSWORD}@host/db`,
    `postgres://user:${PASSWORD}@host:port/db`,
    `postgres://user:${PASSWORD}@[host/db`,
    // What URL parsers take for a host, a path or a fragment: parts of a password.
    `postgres://user:1/${PASSWORD}@host/db`,
    `postgres://user:a#${PASSWORD}@host/db`,
    `postgres://user:a?${PASSWORD}@host/db`,
    `postgres://user:a@${PASSWORD}@host/db`,
    `postgres://user:%zz${PASSWORD}@host/db`,
    `postgres://user:${PASSWORD}%@host/db`,
  ]
  for (const url of unusable) {
    test(`is refused without being repeated: ${url.replace(PASSWORD, '…')}`, async () => {
      assertFailed(await cli(['status'], { env: { DATABASE_URL: url } }), 2, /Cannot use DATABASE_URL as /)
      assertFailed(await cli(['status', '--database-url', url]), 2, /Cannot use DATABASE_URL as /)
    })
  }

  test('is given up after seconds where something else listens, which ends every connection', async (t) => {
    const server = createServer((socket) => void socket.once('data', () => socket.end('220 mail\r\n')))
    t.after(() => server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const address = server.address()
    assert.ok(address !== null && typeof address === 'object')
    const begunAt = performance.now()
    const env = { DATABASE_URL: `postgres://user:${PASSWORD}@127.0.0.1:${address.port}/none` }
    assertFailed(await cli(['status'], { env }), 1, /Cannot (use|reach) PostgreSQL/)
    assert.ok(performance.now() - begunAt < 10_000)
  })

  test('says what is wrong where nobody answers', async () => {
    const refused = `postgres://user:${PASSWORD}@127.0.0.1:1/none`
    const unknown = `postgres://user:${PASSWORD}@no-such-host.invalid/none`
    for (const command of ['status', 'migrate', 'keys list --organization O', 'deliver']) {
      const result = await cli(command.split(' '), { env: { DATABASE_URL: refused } })
      assertFailed(result, 1, /Cannot reach PostgreSQL: the connection was refused; is it running\?/)
    }
    assertFailed(
      await cli(['status', '--database-url', unknown]),
      1,
      /Cannot reach PostgreSQL: the name of its host/,
    )
  })
})
