export { slotOf } from './access/slots.ts'
export type { BusinessApiStore, RecordStore } from './business-store.ts'
export type { CloseOptions, DatabaseOptions } from './postgres/connection/database.ts'
export type { PostgresTransaction } from './postgres/connection/transaction.ts'
export { type DrizzleSql, type DrizzleTransaction, drizzleTransaction } from './postgres/drivers/drizzle.ts'
export {
  type KyselyCompiledQuery,
  type KyselyTransaction,
  kyselyTransaction,
} from './postgres/drivers/kysely.ts'
export { type PgClient, type PgStatement, pgTransaction } from './postgres/drivers/pg.ts'
export { type PrismaTransaction, prismaTransaction } from './postgres/drivers/prisma.ts'
export type { SqlParameter, SqlRow, SqlTransaction } from './postgres/drivers/sql-transaction.ts'
export type { PostgresPlatform } from './postgres/postgres-platform.ts'
export { type MigrateOptions, type MigrationReport, migrate } from './postgres/schema/migrate.ts'
export type { Shard } from './postgres/shards/shard.ts'
export type { ShardPlace } from './postgres/shards/shard-place.ts'
export { createShardedStore, type ShardedStore } from './postgres/shards/sharded-store.ts'
export { createPostgresStore, type PostgresStore, type PostgresStoreOptions } from './postgres/store.ts'
export type { EventDefinition } from './resources/own-events.ts'
export type { Service } from './service.ts'
