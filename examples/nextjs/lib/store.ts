import { createPostgresStore } from 'business-api-kit/postgres'
import { kept } from './kept'

// Nothing is opened before the first request, so `next build`, which loads this file, needs no database.
export const store = kept('store', () =>
  createPostgresStore(process.env.DATABASE_URL ?? 'postgres://localhost:5432/postgres'),
)
