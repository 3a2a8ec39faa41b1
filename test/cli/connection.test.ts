import assert from 'node:assert/strict'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import { serverOwner } from '../../examples/demo/postgres-machine.ts'
import { CERTIFICATE, PRIVATE_KEY } from '../sender/_receiver-certificate.ts'
import { assertFailed, cli, PASSWORD } from './_cli.ts'

// Connections rejected by a real server. The message must include the server, the user and how to fix it.

let directory: string
let plain: PostgresServer
let encrypted: PostgresServer

before(async () => {
  // Must be accessible to the user that runs the servers if the tests run as root.
  directory = await mkdtemp('/tmp/business-api-cli-tls-')
  const hba = 'hostssl all all 127.0.0.1/32 scram-sha-256\n'
  const files = { certificate: CERTIFICATE, key: PRIVATE_KEY, hba }
  const owner = await serverOwner()
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(directory, name), content, { mode: 0o600 })
    if (owner) await chown(join(directory, name), owner.uid, owner.gid)
  }
  if (owner) await chown(directory, owner.uid, owner.gid)
  const settings = [
    'ssl=on',
    `ssl_cert_file=${join(directory, 'certificate')}`,
    `ssl_key_file=${join(directory, 'key')}`,
    `hba_file=${join(directory, 'hba')}`,
  ]
  plain = await startPostgres()
  encrypted = await startPostgres({ postgresFlags: settings.flatMap((setting) => ['-c', setting]) })
})

after(async () => {
  await plain.stop()
  await encrypted.stop()
  await rm(directory, { recursive: true, force: true })
})

/** Returns the connection string with other parts. */
function change(
  { url }: PostgresServer,
  changes: Partial<Record<'username' | 'password' | 'pathname', string>>,
) {
  return Object.assign(new URL(url), changes).href
}

const cases: Readonly<Record<string, { url(): string; about: RegExp }>> = {
  'a wrong password': {
    url: () => change(plain, { password: PASSWORD }),
    about: /user postgres, database postgres\): the password was rejected; check the user and the password/,
  },
  'a database that does not exist': {
    url: () => change(plain, { pathname: '/nothing' }),
    about: /user postgres, database nothing\): no database has that name; .*create the database/,
  },
  'a server without TLS': {
    url: () => `${plain.url}?sslmode=require`,
    about: /: the server does not speak TLS; leave sslmode out of DATABASE_URL/,
  },
  'a server that wants TLS': {
    url: () => encrypted.url,
    about: /: it accepts only encrypted connections; add \?sslmode=require to DATABASE_URL/,
  },
  'a self-signed certificate': {
    url: () => `${encrypted.url}?sslmode=verify-full`,
    about: /: its certificate is self-signed; name the authority in sslrootcert=.*, or use sslmode=require/,
  },
}

describe('a server that rejects: ', () => {
  for (const [name, { url, about }] of Object.entries(cases)) {
    test(name, async () => {
      const env = { DATABASE_URL: url() }
      const { port, hostname } = new URL(env.DATABASE_URL)
      for (const command of ['status', 'keys list -o O', 'migrate', 'deliver']) {
        const result = await cli(command.split(' '), { env })
        assertFailed(result, 1, about)
        assert.ok(
          result.stderr.includes(`Cannot reach PostgreSQL (${hostname}:${port}, user `),
          result.stderr,
        )
        assert.ok(!result.stderr.includes(new URL(env.DATABASE_URL).password))
      }
      const { checks } = JSON.parse((await cli(['doctor', '--json'], { env })).stdout)
      assert.match(checks[0].message, about)
    })
  }

  test('sslmode=require works with a server that requires TLS', async () => {
    const env = { DATABASE_URL: `${encrypted.url}?sslmode=require` }
    assert.equal((await cli(['status'], { env })).exitCode, 0)
  })
})
