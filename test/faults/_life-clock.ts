import postgres from 'postgres'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import { TEST_SERVER_FLAGS } from '../_database.ts'
import { until } from './_fixture.ts'

// A clock that a test moves: PostgreSQL's for every session, and the clock of this process with it.

/** A PostgreSQL server whose clock can be moved, and the moved clock of this process: `Date.now`. */
export interface MovedServer {
  readonly url: string
  /** A pool of the test's own, past every restart. */
  readonly sql: postgres.Sql
  /** Moves both clocks ahead, for all sessions at once. */
  move(ms: number): Promise<void>
  /** Ends the server as a crash does, and starts the server again. */
  crash(): Promise<void>
  /** Ends the connections of all other sessions. Returns their number. */
  terminate(): Promise<number>
  close(): Promise<void>
}

/**
 * PostgreSQL finds a function by its name when an expression is parsed, and by its number from then on: so the functions of the
 * catalogue that read the clock are renamed, and functions that add an offset take the names, before the schema is made. The texts of
 * the migrations, the empty search_path of the functions and the defaults of columns stay as they are. The functions are slower
 * by 3 microseconds.
 */
const MOVED_CLOCK = `
  create schema clock;
  create table clock.offset_ms (ms bigint not null);
  insert into clock.offset_ms values (0);
  ${['clock_timestamp volatile', 'now stable', 'statement_timestamp stable']
    .map((line) => {
      const [name, volatility] = line.split(' ')
      return `
        alter function pg_catalog.${name}() rename to system_${name};
        create function pg_catalog.${name}() returns timestamptz language plpgsql ${volatility} as $$
        begin
          return pg_catalog.system_${name}() + (select o.ms from clock.offset_ms o) * interval '1 millisecond';
        end
        $$;`
    })
    .join('\n')}`

const systemNow = Date.now

/** Starts a server whose clock, and this process's clock, shows `startsAt`, from where the clocks go on. */
export async function startMovedServer(startsAt: number): Promise<MovedServer> {
  const flags = ['allow_system_table_mods=on', 'shared_buffers=256MB', 'max_wal_size=4GB']
  const server: PostgresServer = await startPostgres({
    postgresFlags: [...TEST_SERVER_FLAGS, ...flags.flatMap((flag) => ['-c', flag])],
  })
  const sql = postgres(server.url, { max: 3, onnotice: () => {}, fetch_types: false })
  await sql.unsafe(MOVED_CLOCK)
  let offset = 0

  async function setOffset(ms: number): Promise<void> {
    await sql`update clock.offset_ms set ms = ${ms}::bigint`
    offset = ms
  }
  await setOffset(startsAt - systemNow())
  Date.now = () => systemNow() + offset

  return {
    url: server.url,
    sql,
    move: (ms) => setOffset(offset + ms),
    async crash() {
      await server.stopServer('immediate')
      await server.startServer()
      await until('PostgreSQL answers again', () => isAnswering(sql), 30_000)
    },
    async terminate() {
      const ended = await sql`
        select pg_terminate_backend(pid) from pg_stat_activity
         where pid <> pg_backend_pid() and backend_type = 'client backend' and application_name like 'life%'`
      return ended.length
    },
    async close() {
      Date.now = systemNow
      await sql.end({ timeout: 1 })
      await server.stop()
    },
  }
}

async function isAnswering(sql: postgres.Sql): Promise<boolean> {
  return sql`select 1`.then(
    () => true,
    () => false,
  )
}
