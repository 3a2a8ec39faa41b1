export type { DatabaseOptions } from './postgres/database.ts'
export { type MigrationReport, migrate } from './postgres/migrate.ts'
export { createPostgresStore, type PostgresStore } from './postgres/store.ts'
export type { BusinessStore, RecordStore } from './store.ts'
