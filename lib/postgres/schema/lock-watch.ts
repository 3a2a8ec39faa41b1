import postgres, { type Sql } from 'postgres'

/** A session that blocks another one with a lock or an old transaction. */
export interface Blocker {
  readonly pid: number
  /** The transaction's virtual ID, or `null` for a prepared transaction. */
  readonly transaction: string | null
  /** `null` if the watching user isn't allowed to see it. */
  readonly user: string | null
  readonly application: string | null
  readonly state: string | null
  /** The transaction's age in seconds. */
  readonly seconds: number | null
}

/** A waiting session and the sessions that block it. */
export interface LockWait {
  /** The waiting session's PID. */
  readonly pid: number
  /** The locked table or index, such as `business_api.leads`. `null` for other kinds of locks. */
  readonly relation: string | null
  /** Empty if the session isn't waiting. */
  readonly blockers: readonly Blocker[]
}

/** Observes a database's locks on a separate connection, opened by the first query. */
export interface LockWatch {
  /**
   * Reads what a session is waiting for.
   *
   * @param session a condition on `pg_stat_activity`
   * @returns `null` if no session matches
   */
  readWait(session: string): Promise<LockWait | null>
  /** Returns `true` if any of the blocking transactions is still running. */
  areLeft(blockers: readonly Blocker[]): Promise<boolean>
  /** Runs a statement and returns the rows as strings. */
  read(statement: string): Promise<readonly (readonly (string | null)[])[]>
  close(): Promise<void>
}

/** Creates a watch with a pool's options. */
export function createLockWatch(pool: Sql): LockWatch {
  let connection: Sql | undefined
  const read = (statement: string): ReturnType<LockWatch['read']> => {
    connection ??= openBeside(pool)
    return readText(connection, statement)
  }

  return {
    read,

    async readWait(session) {
      const [[wait] = []] = await read(`
        select json_build_object(
          'pid', waiting.pid,
          'relation', (
            select case when n.nspname is null then null else n.nspname || '.' || c.relname end
              from pg_catalog.pg_locks l
              join pg_catalog.pg_class c on c.oid = l.relation
              join pg_catalog.pg_namespace n on n.oid = c.relnamespace
             where l.pid = waiting.pid and not l.granted limit 1
          ),
          'blockers', (
            select coalesce(json_agg(json_build_object(
                     'pid', blocker.pid,
                     'transaction', (
                       select l.virtualtransaction from pg_catalog.pg_locks l
                        where l.pid = blocker.pid and l.locktype = 'virtualxid' and l.granted limit 1
                     ),
                     'user', a.usename, 'application', a.application_name, 'state', a.state,
                     'seconds', extract(epoch from clock_timestamp() - a.xact_start)
                   )), '[]')
              from (select distinct unnest(pg_catalog.pg_blocking_pids(waiting.pid)) as pid) as blocker
              left join pg_catalog.pg_stat_activity a on a.pid = blocker.pid
          )
        )::text
        from (
          select pid from pg_catalog.pg_stat_activity where ${session} and pid <> pg_catalog.pg_backend_pid() limit 1
        ) as waiting`)
      return JSON.parse(wait ?? 'null') as LockWait | null
    },

    async areLeft(blockers) {
      const transactions = blockers.map(({ transaction }) => `'${transaction ?? ''}'`)
      if (transactions.length === 0) return false
      const [[left] = []] = await read(`
        select exists (
          select 1 from pg_catalog.pg_locks l
           where l.locktype = 'virtualxid' and l.granted and l.virtualtransaction in (${transactions.join()})
        )::text`)
      return left === 'true'
    },

    close: async () => void (await connection?.end({ timeout: 1 })),
  }
}

/** Opens a connection to the same server as the same user. */
function openBeside({ options }: Sql): Sql {
  // postgres.js uses resolved options as they are.
  const read = {
    ...options,
    max: 1,
    fetch_types: false,
    prepare: false,
    transform: { undefined: undefined, column: {}, value: {}, row: {} },
    onnotice: () => {},
    shared: { retries: 0, typeArrayMap: {} },
  }
  return postgres(read as Parameters<typeof postgres>[0] & object)
}

/** Runs a statement and returns the rows as strings, bypassing the host's type parsers and transforms. */
export async function readText(sql: Pick<Sql, 'unsafe'>, statement: string): Promise<(string | null)[][]> {
  const rows = await sql.unsafe(statement).raw()
  // The host's row transform applies even to raw rows, and may have turned the array into an object.
  return rows.map((row) =>
    Object.values<Uint8Array | null>(row).map((value) => value && Buffer.from(value).toString()),
  )
}

// --- Messages ---

/**
 * Describes what a session is waiting for and how to fix it, for example `session 4711 (psql of app, idle in
 * transaction for 42 s)`. Never includes statements, since they may contain secrets.
 */
export function describeWait(wait: LockWait | null): string {
  const [first, ...others] = wait?.blockers ?? []
  if (wait === null || first === undefined) {
    return 'it waits for a lock that another session holds; look for a long transaction in pg_stat_activity, and end it'
  }
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  const place =
    wait.relation === null ? 'the transaction' : `a lock on ${wait.relation}, held by the transaction`
  return (
    `it waits for ${place} of session ${first.pid}${describeSession(first)}${more}; ` +
    `end that transaction, or run: select pg_terminate_backend(${first.pid})`
  )
}

function describeSession({ user, application, state, seconds }: Blocker): string {
  const owner = [application, user && `of user ${user}`].filter(Boolean).join(' ')
  const course = [state, seconds !== null && `for ${Math.round(seconds)} s`].filter(Boolean).join(' ')
  const known = [owner, course].filter((part) => part !== '').join(', ')
  return known === '' ? '' : ` (${known})`
}
