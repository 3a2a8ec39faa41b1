import { createPostgresStore } from 'business-api-kit/postgres'
import { kept } from './kept'

// Nothing is opened before the first request. `next build` loads this file but doesn't need a database.
export const store = kept('store', () =>
  createPostgresStore(process.env.DATABASE_URL ?? 'postgres://localhost:5432/postgres'),
)
