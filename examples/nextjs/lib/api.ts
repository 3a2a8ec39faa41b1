import { createBusinessApi } from 'business-api'
import { createPostgresStore } from 'business-api/postgres'

// Nothing is opened before the first request, so `next build`, which loads this file, needs no database.
const store = createPostgresStore(process.env.DATABASE_URL ?? 'postgres://localhost:5432/postgres')

export const api = createBusinessApi(store)
