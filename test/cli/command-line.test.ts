import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, test } from 'node:test'
import { VERSION } from '../../lib/base/version.ts'
import { COMMANDS } from '../../lib/cli/commands.ts'
import { assertFailed, cli, PASSWORD, textOf } from './_cli.ts'

// Everything the command line checks without a database.

const COMMAND_LINES = COMMANDS.flatMap((entry) =>
  'commands' in entry
    ? entry.commands.map((command) => ({ words: [entry.name, command.name], command }))
    : [{ words: [entry.name], command: entry }],
)

describe('--help', () => {
  test('of the program lists all commands and environment variables', async () => {
    for (const args of [[], ['--help'], ['-h'], ['help']]) {
      const help = textOf(await cli(args))
      for (const { words } of COMMAND_LINES) assert.match(help, new RegExp(`^  ${words.join(' ')}  `, 'm'))
      assert.match(help, /DATABASE_URL/)
      assert.match(help, /BUSINESS_API_SECRET_KEYS/)
      assert.match(help, /Examples\n {2}# /)
    }
  })

  test('of a group lists its commands', async () => {
    for (const args of [
      ['keys', '--help'],
      ['help', 'keys'],
    ]) {
      const help = textOf(await cli(args))
      assert.match(help, /^business-api-kit keys: /)
      for (const name of ['create', 'list', 'revoke']) assert.match(help, new RegExp(`keys ${name} `))
      assert.match(help, /Examples\n {2}# /)
    }
  })

  for (const { words, command } of COMMAND_LINES) {
    test(`of ${words.join(' ')} lists every flag, and the examples work`, async () => {
      const help = textOf(await cli([...words, '--help']))
      assert.match(help, new RegExp(`^business-api-kit ${words.join(' ')}: `))
      const flags = [...help.matchAll(/^ {2}(--[a-z-]+)(?:, (-[a-z]))?/gm)].flatMap(([, ...names]) => names)
      assert.ok(flags.includes('--json') && flags.includes('--database-url') && flags.includes('--help'))
      for (const [, line = ''] of help
        .replaceAll(/ \\\n +/g, ' ')
        .matchAll(/^ {2}(business-api-kit .*)$/gm)) {
        for (const [flag] of line.matchAll(/ --?[a-z-]+(?=[ =\n]|$)/g)) {
          assert.ok(flags.includes(flag.trim()) || /\| jq|psql/.test(line), `${flag} in: ${line}`)
        }
      }
      assert.ok(Object.keys(command.examples).length > 0)
    })

    for (const columns of [72, 80, 120]) {
      test(`of ${words.join(' ')} fits in a terminal with ${columns} columns and nothing is lost`, async () => {
        const help = textOf(await cli([...words, '--help'], { columns }))
        const tooLong = help.split('\n').filter((line) => line.length > columns && line.trim().includes(' '))
        // Quotes and pipes in examples aren't broken, because copied lines must still work.
        assert.deepEqual(
          tooLong.filter((line) => !/['|"]/.test(line)),
          [],
        )
        const wordsOf = (text: string): string[] =>
          text
            .replaceAll(/ \\\n|\n {2}#/g, ' ')
            .split(/\s+/)
            .sort()
        assert.deepEqual(wordsOf(help), wordsOf(textOf(await cli([...words, '--help']))))
      })
    }
  }

  test('takes precedence over everything else on the command line', async () => {
    const help = textOf(await cli(['keys', 'create', '--bogus', '--help']))
    assert.match(help, /--organization O/)
    assert.doesNotMatch(help, /bogus/)
  })

  test("--version prints the package's version", async () => {
    assert.equal(textOf(await cli(['--version'])), `${VERSION}\n`)
  })
})

test('--help warns about flags whose value other users of the machine can read', async () => {
  for (const args of [['status'], ['endpoints', 'add']]) {
    const help = textOf(await cli([...args, '--help'])).replaceAll(/\n {6,}/g, ' ')
    assert.match(help, /^ {2}--database-url URL .*other users of this machine/m)
    if (args[1]) assert.match(help, /^ {2}--header 'NAME: VALUE' .*other users of this machine/m)
  }
})

describe('an invalid command line', () => {
  const refused: readonly (readonly [line: string, about: RegExp])[] = [
    ['migrat', /Unknown command 'migrat': did you mean 'migrate'\? \(see: business-api-kit --help\)/],
    ['revoke key_1', /Unknown command 'revoke': did you mean 'keys revoke'\?/],
    ['rotate', /did you mean 'keys rotate' or 'endpoints rotate'\?/],
    ['keys add', /Unknown command 'keys add': did you mean 'endpoints add' or 'shards add'\?/],
    ['constructor', /Unknown command 'constructor' \(/],
    ['kesy list', /Unknown command 'kesy': did you mean 'keys'\?/],
    ['key list', /Unknown command 'key': did you mean 'keys'\?/],
    [
      'keys',
      /Name a command of keys: create, import, list, rename, rotate, revoke \(see: business-api-kit keys --help\)/,
    ],
    ['keys --json', /Name a command of keys/],
    ['keys creat', /Unknown command 'keys creat': did you mean 'create'\?/],
    ['--json status', /Name a command before '--json'/],
    [
      'status --jason',
      /Unknown flag '--jason': did you mean '--json'\? \(see: business-api-kit status --help\)/,
    ],
    ['status --nothing-like-it', /Unknown flag '--nothing-like-it' \(/],
    ['status -x', /Unknown flag '-x'/],
    ['keys list -organization O', /Cannot read -o and its value in one word; write: -o O/],
    ['keys list -oO', /Cannot read -o and its value in one word/],
    ['keys list -o', /-o needs a value: -o O/],
    ['keys list -o A --organization B', /--organization is given twice/],
    ['keys create -o O --scopes client:read', /'client:read' is unknown: did you mean 'clients:read'\?/],
    ['keys create -o O --scopes leads:read,all', /--scopes must be one or more of clients:read, .*, or all/],
    [
      'endpoints add -o O --url U --types invoice.payed',
      /'invoice.payed' is unknown: did you mean 'invoice.paid'\?/,
    ],
    ['endpoints test we_1 -o O --type lead.creatd', /--type because 'lead.creatd' .*'lead.created'\?/],
    ['deliveries list -o O --type client.crated', /did you mean 'client.created'\?/],
    ['deliveries list -o O --state faild', /did you mean 'failed'\?/],
    ['deliveries list -o O --state fail', /--state because 'fail' is unknown: did you mean 'failed'\?/],
    ['deliveries list -o O --state pending,send', /'send' is unknown: did you mean 'sending'\?/],
    ['deliveries list -o O --state lost', /--state must be one or more of pending, .*failed/],
    ['deliveries list -o O --type paid', /--type because 'paid' is unknown: did you mean 'invoice.paid'\?/],
    [
      'deliveries list -o O --type client',
      /--type because 'client' is unknown: did you mean 'client.created'\?/,
    ],
    ['deliveries list -o O --type created', /--type must be one of /],
    ['audit list -o O --action disabled', /--action because 'disabled' .*did you mean 'endpoint.disabled'\?/],
    ['keys create -o O --scopes clients', /--scopes must be one or more of clients:read, /],
    ['deliveries list -o O --org O', /Unknown flag '--org': did you mean '--organization'\?/],
    ['status --json=yes', /--json takes no value/],
    ['status --json --json', /--json is given twice/],
    ['status surplus', /Unexpected argument 'surplus'/],
    ['keys revoke one two --organization O', /Unexpected argument 'two'/],
    ['keys revoke --organization O', /Missing ID/],
    ['keys list', /Missing --organization O; pass it, or set BUSINESS_API_ORGANIZATION/],
    ['keys list --organization', /--organization needs a value: --organization O/],
    ['keys list --organization --json', /--organization needs a value/],
    ['keys list --organization=', /--organization needs a value/],
    ['keys create --organization O', /Missing --scopes a,b/],
    ['keys create --organization O --scopes leads:read --expires soon', /--expires must be a duration/],
    ['keys create --organization O --scopes leads:read --expires 2027-02-99', /--expires must be/],
    ['endpoints add --organization O', /Missing --url URL/],
    ['endpoints rotate we_1 --organization O --overlap 24', /--overlap must be a duration like/],
    ['deliveries list --organization O --limit ten', /--limit must be a whole number/],
    ['deliveries list --organization O --since 2026-01-31T09:00', /--since must be/],
    ['deliveries list --organization O --since 2026-02-31', /--since must be/],
    ['deliveries list --organization O --since 2026-02-31T00:00:00Z', /--since must be/],
    ['deliveries list --organization O --since 36500d', /--since must be .* from 1970 to 9999/],
    [
      'deliveries list --organization O --since 1h --until 2h',
      /Pass an --until that is later than --since \(see: business-api-kit deliveries list --help\)/,
    ],
    ['deliveries recover --organization O --since 2026-01-31 --until 2026-01-31', /Pass an --until/],
    [
      'keys create --organization O --scopes leads:read --expires 2020-01-01',
      /--expires must be in the future/,
    ],
    ['keys rotate key_1 --organization O --overlap 31d', /--overlap must be at most 30d/],
    ['endpoints rotate we_1 --organization O --overlap 721h', /--overlap must be at most 30d/],
    ['deliver --retention 0', /--retention must be 'never' or a duration/],
    ['purge', /Missing --older-than DURATION/],
    ['purge --older-than 999999999w', /--older-than must be a duration .*, at most 36500d/],
    ['deliver --retention 36501d', /--retention must be .*, at most 36500d/],
    ['purge --older-than 0', /Cannot use --older-than because an age below 1d .* pass --allow-recent/],
    ['purge --older-than 1s --yes', /Cannot use --older-than because an age below 1d .* pass --allow-recent/],
    [
      'deliver --once --retention 1s',
      /Cannot use --retention because an age below 1d .* pass --allow-recent/,
    ],
    ['migrate --dry-run --print', /Pass either --dry-run or --print/],
  ]
  for (const [line, about] of refused) {
    test(`${line}: prints one line and exits with 2`, async () => {
      const result = await cli(line.split(' '), { env: { DATABASE_URL: 'postgres://127.0.0.1:1/none' } })
      assertFailed(result, 2, about)
      assert.equal(result.stdout, '')
    })
  }

  test('is rejected with lines that fit in the terminal', async () => {
    const { stderr } = await cli(['purge', '--older-than', '1s'], { columns: 60 })
    assert.ok(stderr.split('\n').every((line) => line.length <= 60))
    assert.match(
      stderr.replaceAll('\n', ' '),
      /^business-api-kit: Cannot use --older-than because .* pass --allow-recent to /,
    )
  })

  test('never shows a value that may be a secret', async () => {
    const args = ['endpoints', 'add', '--organization', 'O', '--url', 'https://x.example/']
    const env = {
      DATABASE_URL: 'postgres://127.0.0.1:1/none',
      BUSINESS_API_SECRET_KEYS: 'cd'.repeat(31).concat('01'),
    }
    for (const header of [PASSWORD, `:${PASSWORD}`, `a b: ${PASSWORD}`]) {
      assertFailed(
        await cli([...args, '--header', header], { env }),
        2,
        /--header must be like 'Name: value'/,
      )
    }
    const twice = ['--header', `A: ${PASSWORD}`, '--header', 'a: other']
    assertFailed(await cli([...args, ...twice], { env }), 2, /--header because a name is repeated/)
    const keys = { ...env, BUSINESS_API_SECRET_KEYS: PASSWORD }
    assertFailed(
      await cli(args, { env: keys }),
      2,
      /BUSINESS_API_SECRET_KEYS must be keys of 32 random bytes/,
    )
    assertFailed(
      await cli(args, { env: { DATABASE_URL: env.DATABASE_URL } }),
      2,
      /Set BUSINESS_API_SECRET_KEYS .*openssl/,
    )
  })
})

describe('an environment variable', () => {
  const DATABASE_URL = 'postgres://127.0.0.1:1/none'

  test("is used if the flag isn't passed", async () => {
    const env = { DATABASE_URL, BUSINESS_API_ORGANIZATION: 'org_1' }
    assertFailed(await cli(['keys', 'list'], { env }), 1, /Cannot reach PostgreSQL/)
    assertFailed(
      await cli(['keys', 'list'], { env: { ...env, BUSINESS_API_ORGANIZATION: '' } }),
      2,
      /Missing --organization O/,
    )
  })

  test("is named if it's invalid, and the flag takes precedence", async () => {
    const create = ['keys', 'create', '-o', 'O', '--scopes', 'leads:read']
    const env = { DATABASE_URL, BUSINESS_API_MAX_API_KEYS: 'No' }
    assertFailed(await cli(create, { env }), 2, /BUSINESS_API_MAX_API_KEYS must be/)
    assertFailed(await cli([...create, '--max-api-keys', '5'], { env }), 1, /Cannot reach PostgreSQL/)
    assertFailed(await cli([...create, '--max-api-keys', 'x'], { env }), 2, /--max-api-keys must be/)
  })
})

describe('DATABASE_URL', () => {
  test('is required', async () => {
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
    // Parts of a password that URL parsers mistake for a host, path or fragment.
    `postgres://user:1/${PASSWORD}@host/db`,
    `postgres://user:a#${PASSWORD}@host/db`,
    `postgres://user:a?${PASSWORD}@host/db`,
    `postgres://user:a@${PASSWORD}@host/db`,
    `postgres://user:%zz${PASSWORD}@host/db`,
    `postgres://user:${PASSWORD}%@host/db`,
  ]
  for (const url of unusable) {
    test(`is rejected without being shown: ${url.replace(PASSWORD, '…')}`, async () => {
      assertFailed(
        await cli(['status'], { env: { DATABASE_URL: url } }),
        2,
        /Cannot use DATABASE_URL because /,
      )
      assertFailed(await cli(['status', '--database-url', url]), 2, /Cannot use DATABASE_URL because /)
    })
  }

  for (const [parameters, about] of [
    ['sslmode=reqiure', /DATABASE_URL because sslmode must be one of disable, .*, verify-full/],
    ['sslmode=no-verify', /use sslmode=require, which encrypts without verifying/],
    ['service=app', /service is not available in Node: use the parts of the service/],
  ] as const) {
    test(`with ${parameters} is rejected with advice`, async () => {
      const env = { DATABASE_URL: `postgres://user:${PASSWORD}@127.0.0.1:1/none?${parameters}` }
      assertFailed(await cli(['status'], { env }), 2, about)
    })
  }

  test('fails after a few seconds if another program listens and closes every connection', async (t) => {
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

  test('says what is wrong if no server responds', async () => {
    const refused = `postgres://user:${PASSWORD}@127.0.0.1:1/none`
    const unknown = `postgres://user:${PASSWORD}@no-such-host.invalid/none`
    for (const command of ['status', 'migrate', 'keys list --organization O', 'deliver']) {
      const result = await cli(command.split(' '), { env: { DATABASE_URL: refused } })
      assertFailed(
        result,
        1,
        /Cannot reach PostgreSQL \(127\.0\.0\.1:1, user user, database none\): the connection was refused; is it running\?/,
      )
    }
    assertFailed(
      await cli(['status', '--database-url', unknown]),
      1,
      /Cannot reach PostgreSQL \(no-such-host\.invalid:5432, user user, database none\): its host name/,
    )
  })
})
