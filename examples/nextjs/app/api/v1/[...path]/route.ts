// The API in a Next.js app: this file serves everything below /api/v1, app/openapi.json/route.ts the description, and
// instrumentation.ts delivers the webhooks. Nothing is to be set for output: 'standalone'.
//
//   npm run build                         once in the top directory of this package, which is installed as file:../..
//   cd examples/nextjs && npm install
//   DATABASE_URL=postgres://… npm run migrate
//   npm run build                         needs neither a database nor DATABASE_URL
//   DATABASE_URL=postgres://… npm start
//
// The first key: examples/create-key.ts

import { api } from '../../../../lib/api'

// All methods, so that an answer to a method that is not served has the API's form too. HEAD is GET to Next.js.
export const GET = api.fetch
export const POST = api.fetch
export const PUT = api.fetch
export const PATCH = api.fetch
export const DELETE = api.fetch
export const OPTIONS = api.fetch
