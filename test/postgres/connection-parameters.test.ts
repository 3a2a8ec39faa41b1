import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import tcp, { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import postgres from 'postgres'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import { serverOwner } from '../../examples/demo/postgres-machine.ts'
import { createDatabase } from '../../lib/postgres/connection/database.ts'
import { inTransaction } from '../../lib/postgres/connection/plain-transaction.ts'
import { readTarget } from '../../lib/postgres/connection/target.ts'
import { createPostgresStore, type DatabaseOptions } from '../../lib/postgres.ts'
import { CERTIFICATE, PRIVATE_KEY, REVOCATION } from '../sender/_receiver-certificate.ts'

// Connection strings as printed by providers, and libpq's environment variables, on a real server with TLS and
// a Unix socket.

const PASSWORD = 'correct-horse'
let folder: string
let server: PostgresServer

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bapi-'))
  const owner = await serverOwner()
  for (const [name, content] of Object.entries({
    certificate: CERTIFICATE,
    key: PRIVATE_KEY,
    crl: REVOCATION,
  })) {
    await writeFile(join(folder, name), content, { mode: 0o600 })
    if (owner) await chown(join(folder, name), owner.uid, owner.gid)
  }
  if (owner) await chown(folder, owner.uid, owner.gid)
  const settings = {
    ssl: 'on',
    ssl_cert_file: join(folder, 'certificate'),
    ssl_key_file: join(folder, 'key'),
    unix_socket_directories: folder,
    listen_addresses: '127.0.0.1,127.0.0.2',
  }
  server = await startPostgres({
    postgresFlags: Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  })
})
after(async () => {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
})

/** What the server says about the connection. */
interface Connected {
  readonly tls: boolean
  readonly version: string | null
  readonly name: string
  readonly socket: boolean
  readonly work_mem: string
}

async function connect(url: string, options: DatabaseOptions = {}): Promise<Connected> {
  const database = createDatabase(url, options)
  try {
    const [row] = await database.row(
      (sql, tag) => sql`
        select
          pg_catalog.json_build_object(
            'tls', ssl.ssl, 'version', ssl.version, 'name', pg_catalog.current_setting('application_name'),
            'socket', pg_catalog.inet_client_addr() is null, 'work_mem', pg_catalog.current_setting('work_mem')
          )::text,
          ${tag}
        from pg_catalog.pg_stat_ssl ssl where ssl.pid = pg_catalog.pg_backend_pid()`,
    )
    return JSON.parse(row ?? 'null')
  } finally {
    await database.close()
  }
}

/** Reads from a transaction of its own. */
function readOne(source: postgres.Sql | string): Promise<unknown> {
  return inTransaction(source, 'read committed', async (sql) => (await sql`select 1 as one`)[0]?.one)
}

function setVariables(context: TestContext, variables: Readonly<Record<string, string>>): void {
  const before = Object.fromEntries(Object.keys(variables).map((name) => [name, process.env[name]]))
  Object.assign(process.env, variables)
  context.after(() => {
    for (const [name, value] of Object.entries(before))
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
  })
}

const withParameters = (parameters: string): string =>
  `${server.url}?${parameters.replaceAll('FOLDER', encodeURIComponent(folder))}`

describe("a connection string is used as it's printed by providers", () => {
  for (const [what, parameters, expected] of [
    ['nothing', '', { tls: false, name: 'business-api-kit', socket: false }],
    [
      'Prisma',
      'schema=public&connection_limit=5&pool_timeout=10&socket_timeout=3&statement_cache_size=0&sslaccept=accept_invalid_certs',
      { tls: false },
    ],
    ['Supabase', 'pgbouncer=true&supa=base-pooler.x&workaround=supabase-pooler.vercel', { tls: false }],
    [
      'libpq without a meaning here',
      'gssencmode=disable&keepalives=1&keepalives_idle=30&keepalives_count=3&krbsrvname=postgres&sslcompression=0&tcp_user_timeout=5&load_balance_hosts=disable&client_encoding=UTF8&replication=false',
      { tls: false },
    ],
    ['node-postgres', 'uselibpqcompat=true&sslmode=require', { tls: true }],
    ['an at sign in a parameter', 'application_name=a@b', { name: 'a@b' }],
    ['a plus sign, a space as URL writes it', 'application_name=a+b%20c%2Bd', { name: 'a b c+d' }],
    ['options', 'options=-c%20work_mem%3D7MB', { work_mem: '7MB' }],
    ['a setting', 'work_mem=9MB', { work_mem: '9MB' }],
    ['a name to fall back to', 'fallback_application_name=f', { name: 'f' }],
    ['sslmode=require', 'sslmode=require', { tls: true }],
    ['sslmode=prefer, without falling back', 'sslmode=prefer', { tls: true }],
    ['sslmode=allow, without falling back', 'sslmode=allow', { tls: true }],
    ['sslmode=verify-ca', 'sslmode=verify-ca&sslrootcert=FOLDER%2Fcertificate', { tls: true }],
    ['sslmode=verify-full', 'sslmode=verify-full&sslrootcert=FOLDER%2Fcertificate', { tls: true }],
    [
      'sslcertmode=disable, without reading the certificate',
      'sslmode=require&sslcertmode=disable&sslcert=FOLDER%2Fmissing',
      { tls: true },
    ],
    ['Neon', 'sslmode=require&channel_binding=require&sslrootcert=FOLDER%2Fcertificate', { tls: true }],
    ['a protocol', 'sslmode=require&ssl_max_protocol_version=TLSv1.2', { version: 'TLSv1.2' }],
    ['a direct negotiation', 'sslnegotiation=direct', { tls: true }],
    ['a socket beside a host', 'host=FOLDER', { socket: true, tls: false }],
    ['a socket, which has no TLS', 'host=FOLDER&sslmode=require', { socket: true, tls: false }],
  ] as const)
    test(what, async () => {
      const connected = await connect(withParameters(parameters))
      for (const [name, value] of Object.entries(expected))
        assert.equal(Reflect.get(connected, name), value, `${name} of ${inspect(connected)}`)
    })

  test('a scheme in upper case, and a socket as the host', async () => {
    assert.equal((await connect(server.url.replace('postgres:', 'POSTGRES:'))).tls, false)
    const { username, password, port, pathname } = new URL(server.url)
    const url = `postgres://${username}:${password}@${encodeURIComponent(folder)}:${port}${pathname}`
    assert.equal((await connect(url)).socket, true)
    assert.equal(await readOne(url), 1)
  })

  test('pgbouncer=true prepares nothing and sets no session parameters unless the options say otherwise', async () => {
    const read = async (options: DatabaseOptions): Promise<string> => {
      const database = createDatabase(withParameters('pgbouncer=true'), options)
      try {
        const ask = () =>
          database.row(
            (sql, tag) => sql`
              select pg_catalog.current_setting('lock_timeout') || ' ' || (select count(*) from pg_catalog.pg_prepared_statements)::text, ${tag}`,
          )
        await ask()
        return String((await ask())[0])
      } finally {
        await database.close()
      }
    }
    assert.equal(await read({ maxConnections: 1 }), '0 0')
    assert.equal(await read({ maxConnections: 1, sessions: true }), '4s 0')
    assert.notEqual(await read({ maxConnections: 1, prepare: true }), '0 0')
  })

  test('all parts can be given as parameters', () => {
    const url = 'postgresql://?host=a.example,b.example&port=1,2&user=u%40x&password=p&dbname=d'
    assert.deepEqual(readTarget(url), { server: 'a.example:1,b.example:2', user: 'u@x', database: 'd' })
  })
})

describe('TLS is never weaker than the connection string says', () => {
  for (const [parameters, fault] of [
    ['channel_binding=require', /self-signed/],
    ['sslmode=require&channel_binding=require', /self-signed/],
    ['sslmode=disable&channel_binding=require', /self-signed/],
    ['sslmode=verify-ca', /self-signed/],
    ['sslmode=require&sslrootcert=system', /self-signed/],
    ['ssl=true', /self-signed/],
    ['sslmode=require&sslaccept=strict', /self-signed/],
    ['sslmode=require&sslrootcert=FOLDER%2Fcertificate&sslcrl=FOLDER%2Fcrl', /its certificate was revoked/],
    ['sslmode=require&sslcrl=FOLDER%2Fcrl', /its certificate was revoked/],
    ['sslmode=require&sslcert=FOLDER%2Fmissing', /the file of sslcert cannot be read: ENOENT/],
    ['sslmode=verify-full&sslrootcert=FOLDER%2Fmissing', /the file of sslrootcert cannot be read: ENOENT/],
  ] as const)
    test(`${parameters} rejects a certificate from an unknown authority`, async () => {
      await assert.rejects(connect(withParameters(parameters)), { code: 'store_unavailable', message: fault })
    })

  test('sslmode=verify-full checks the name, even if the host is an IP address', async () => {
    const url = withParameters('sslmode=verify-full&sslrootcert=FOLDER%2Fcertificate').replace(
      '127.0.0.1',
      '127.0.0.2',
    )
    await assert.rejects(connect(url), {
      code: 'store_unavailable',
      message: /its certificate is for another name/,
    })
    await assert.rejects(readOne(url), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
    assert.equal((await connect(url.replace('verify-full', 'verify-ca'))).tls, true)
  })
})

describe('a parameter that would result in a different connection', () => {
  for (const [parameters, about] of [
    [
      'sslmode=no-verify',
      /sslmode=no-verify is not of libpq: use sslmode=require, which encrypts without verifying/,
    ],
    ['ssl=no-verify', /use sslmode=require/],
    ['sslmode=REQUIRE', /sslmode must be one of disable, allow, prefer, require, verify-ca, verify-full/],
    ['gssencmode=require', /gssencmode is not available in Node: use sslmode=verify-full/],
    ['hostaddr=10.0.0.1', /hostaddr is not available in Node: use the address as the host/],
    ['connect_timeout=soon', /connect_timeout must be a whole number of seconds/],
    ...[
      ['client_encoding', 'latin1'],
      ['load_balance_hosts', 'random'],
      ['min_protocol_version', '3.2'],
      ['oauth_issuer', 'https://a.example'],
      ['passfile', '/p'],
      ['replication', 'database'],
      ['require_auth', 'scram-sha-256'],
      ['requirepeer', 'postgres'],
      ['requiressl', '1'],
      ['scram_client_key', 'k'],
      ['service', 'app'],
      ['sslcertmode', 'require'],
      ['sslcrldir', '/crl'],
    ].map(
      ([name, value]) => [`${name}=${value}`, new RegExp(`${name} is not available in Node: use `)] as const,
    ),
    ['channel_binding=always', /channel_binding must be one of disable, prefer, require/],
    ['port=99999', /a port must be a whole number/],
  ] as const)
    test(`is rejected by name without showing the password: ${parameters}`, () => {
      assert.throws(
        () => createPostgresStore(`postgres://app:${PASSWORD}@localhost/app?${parameters}`),
        (error: unknown) => {
          assert.ok(error instanceof TypeError)
          assert.match(error.message, about)
          assert.ok(!inspect(error, { showHidden: true }).includes(PASSWORD))
          return true
        },
      )
    })
})

describe('the environment variables of libpq', () => {
  test('replace parts and parameters missing from the connection string, and are read when connecting', async (t) => {
    const { username, password, port, pathname, hostname } = new URL(server.url)
    const database = createDatabase('postgres://')
    setVariables(t, {
      PGHOST: hostname,
      PGPORT: port,
      PGUSER: username,
      PGPASSWORD: password,
      PGDATABASE: pathname.slice(1),
      PGSSLMODE: 'require',
      PGAPPNAME: 'mine',
      PGOPTIONS: '-c work_mem=7MB',
      PGTARGETSESSIONATTRS: 'primary',
    })
    await database.close()
    const { tls, name, work_mem } = await connect('postgresql:///')
    assert.deepEqual({ tls, name, work_mem }, { tls: true, name: 'mine', work_mem: '7MB' })
    assert.equal((await connect(`${server.url}?application_name=own&sslmode=disable`)).name, 'own')
  })

  test("that aren't supported fail the connection by name", async (t) => {
    for (const [name, value, about] of [
      ['PGSSLMODE', 'no-verify', /PGSSLMODE=no-verify is not of libpq/],
      ['PGSERVICE', 'app', /PGSERVICE is not available in Node/],
      ['PGGSSENCMODE', 'require', /PGGSSENCMODE is not available in Node/],
      ['PGSSLCERTMODE', 'require', /PGSSLCERTMODE is not available in Node/],
      ['PGCONNECT_TIMEOUT', 'soon', /PGCONNECT_TIMEOUT must be a whole number of seconds/],
    ] as const)
      await t.test(name, async (inner) => {
        setVariables(inner, { [name]: value })
        await assert.rejects(connect(server.url), { code: 'store_unavailable', message: about })
      })
  })

  test('PGPASSFILE fails a connection without a password, and has no effect otherwise', async (t) => {
    setVariables(t, { PGPASSFILE: '/p' })
    assert.equal((await connect(server.url)).tls, false)
    const url = server.url.replace(/:[^:@]+@/, '@')
    await assert.rejects(connect(url), { message: /PGPASSFILE is not available in Node: use PGPASSWORD/ })
    setVariables(t, { PGPASSWORD: decodeURIComponent(new URL(server.url).password) })
    assert.equal((await connect(url)).tls, false)
  })

  test("don't change a pool created by the host", async (t) => {
    const pool = postgres(server.url)
    setVariables(t, { PGSSLMODE: 'verify-full' })
    const store = createPostgresStore(pool)
    t.after(() => Promise.all([store.close(), pool.end()]))
    await assert.rejects(store.apiKeys.list('org_a'), { message: /Cannot use|does not exist|schema/ })
  })
})

describe('connect_timeout', () => {
  /** Starts a server that accepts immediately and forwards to PostgreSQL after a delay. */
  async function startSlow(t: TestContext, ms: number): Promise<string> {
    const { port, hostname } = new URL(server.url)
    const sockets = new Set<Socket>()
    const slow = createServer(async (near) => {
      sockets.add(near.on('error', () => {}))
      await sleep(ms, undefined, { ref: false })
      const far = tcp.connect(Number(port), hostname)
      sockets.add(far.on('error', () => {}))
      near.pipe(far).pipe(near)
    }).listen(0, '127.0.0.1')
    await once(slow, 'listening')
    t.after(() => {
      for (const socket of sockets) socket.destroy()
      slow.close()
    })
    return server.url.replace(`:${port}`, `:${(slow.address() as AddressInfo).port}`)
  }
  const patient = { statementTimeoutMs: 60_000 }

  test('is the timeout for opening a connection, longer than the store would wait', async (t) => {
    const url = await startSlow(t, 5500)
    assert.equal((await connect(`${url}?connect_timeout=30`, patient)).tls, false)
  })

  test('is 30 seconds for migrate, for servers that start on demand, or what the pool has', async (t) => {
    const url = await startSlow(t, 5500)
    const pool = postgres(url, { connect_timeout: 1 })
    t.after(() => pool.end({ timeout: 1 }))
    await Promise.all([
      readOne(url).then((one) => assert.equal(one, 1)),
      assert.rejects(readOne(pool), { code: 'CONNECT_TIMEOUT' }),
    ])
  })

  test('may be shorter, may be PGCONNECT_TIMEOUT, and applies to migrate', async (t) => {
    const url = await startSlow(t, 60_000)
    setVariables(t, { PGCONNECT_TIMEOUT: '1' })
    const begunAt = performance.now()
    await assert.rejects(connect(url, patient), { message: /it did not respond in time/ })
    await assert.rejects(readOne(url), { code: 'CONNECT_TIMEOUT' })
    assert.ok(performance.now() - begunAt < 4500, 'each less than the 5 s of the store')
  })
})
