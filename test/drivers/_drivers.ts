import { PrismaPg } from '@prisma/adapter-pg'
import { sql as drizzleSql } from 'drizzle-orm'
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres'
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js'
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { drizzleTransaction, kyselyTransaction, prismaTransaction } from '../../lib/postgres.ts'
import type { HostDriver } from '../platform/_transactions.ts'
import { PrismaClient } from './generated/client.ts'

// The drivers as their hosts use them.

/** A driver with its connections. */
export interface OpenDriver extends HostDriver {
  end(): Promise<unknown>
}

function createPool(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

function openDrizzleOnPg(url: string): OpenDriver {
  const pool = createPool(url)
  const db = drizzlePg(pool)
  return {
    begin: (work) =>
      db.transaction((tx) =>
        work(drizzleTransaction(tx, drizzleSql), async (text) => tx.execute(drizzleSql.raw(text))),
      ),
    end: () => pool.end(),
  }
}

function openDrizzleOnPostgresJs(url: string): OpenDriver {
  const sql = postgres(url, { onnotice: () => {} })
  const db = drizzlePostgresJs(sql)
  return {
    begin: (work) =>
      db.transaction((tx) =>
        work(drizzleTransaction(tx, drizzleSql), async (text) => tx.execute(drizzleSql.raw(text))),
      ),
    // A connection that died in a transaction is never closed otherwise.
    end: () => sql.end({ timeout: 1 }),
  }
}

function openKysely(url: string): OpenDriver {
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: createPool(url) }) })
  return {
    begin: (work) =>
      db
        .transaction()
        .execute((tx) =>
          work(kyselyTransaction(tx, CompiledQuery), (text) => tx.executeQuery(CompiledQuery.raw(text))),
        ),
    end: () => db.destroy(),
  }
}

function openPrisma(url: string): OpenDriver {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) })
  return {
    begin: (work) =>
      prisma.$transaction((tx) => work(prismaTransaction(tx), async (text) => tx.$queryRawUnsafe(text)), {
        maxWait: 10_000,
        timeout: 30_000,
      }),
    end: () => prisma.$disconnect(),
  }
}

/** Every driver, by name. */
export const DRIVERS: Readonly<Record<string, (url: string) => OpenDriver>> = {
  'Drizzle on pg': openDrizzleOnPg,
  'Drizzle on postgres.js': openDrizzleOnPostgresJs,
  Kysely: openKysely,
  Prisma: openPrisma,
}

/** What a host passes by mistake: a database, which would commit each statement by itself. Refused by the compiler, too. */
export function mistakes(url: string): readonly (() => unknown)[] {
  return [
    // @ts-expect-error a database is no transaction
    () => drizzleTransaction(drizzlePg(url), drizzleSql),
    () =>
      kyselyTransaction(
        // @ts-expect-error a database is no transaction
        new Kysely<unknown>({ dialect: new PostgresDialect({ pool: createPool(url) }) }),
        CompiledQuery,
      ),
    // @ts-expect-error a client is no transaction
    () => prismaTransaction(new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) })),
  ]
}
