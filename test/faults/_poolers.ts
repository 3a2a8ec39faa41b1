import type { DatabaseOptions } from '../../lib/postgres.ts'
import type { TestDatabase } from '../_database.ts'
import { startPgBouncer, WITH_PGBOUNCER } from './_pgbouncer.ts'
import { startPgDog, WITH_PGDOG } from './_pgdog.ts'

/** A kind of pooler in transaction mode. */
export interface Pooler {
  /** The options of a test that needs it. */
  readonly needs: { readonly skip: string | false }
  /** The options of a store behind it. */
  readonly options: DatabaseOptions
  /** Starts it in front of up to three databases. @param size connections to each database */
  start(databases: readonly Pick<TestDatabase, 'url'>[], size: number): Promise<RunningPooler>
}

/** A running pooler. */
export interface RunningPooler {
  /** Connection strings in the order of the databases. */
  readonly urls: readonly string[]
  close(): Promise<unknown>
}

export const POOLERS: Readonly<Record<'PgBouncer' | 'PgDog', Pooler>> = {
  PgBouncer: {
    needs: WITH_PGBOUNCER,
    options: { sessions: false, prepare: false },
    async start(databases, size) {
      const poolers = await Promise.all(databases.map((database) => startPgBouncer(database, size)))
      return {
        urls: poolers.map(({ url }) => url),
        close: () => Promise.all(poolers.map((pooler) => pooler.close())),
      }
    },
  },
  PgDog: {
    needs: WITH_PGDOG,
    options: { sessions: false },
    async start(databases, size) {
      const { urlOf, close } = await startPgDog(databases, size)
      return { urls: ['a', 'b', 'c'].slice(0, databases.length).map(urlOf), close }
    },
  },
}
