// The API in a Next.js app. This file serves everything below /api/v1, app/openapi.json/route.ts serves
// the description, and instrumentation.ts delivers the webhooks. It works with output: 'standalone'
// without further settings.
//
//   npm run build                         once in the top directory of this package, which is installed as file:../..
//   cd examples/nextjs && npm install
//   DATABASE_URL=postgres://… npm run migrate
//   npm run build                         needs neither a database nor DATABASE_URL
//   DATABASE_URL=postgres://… npm start
//
// The first key: examples/create-key.ts

import { api } from '../../../../lib/api'

// Export all methods so that responses to unsupported ones have the API's format as well. Next.js handles HEAD as GET.
export const GET = api.fetch
export const POST = api.fetch
export const PUT = api.fetch
export const PATCH = api.fetch
export const DELETE = api.fetch
export const OPTIONS = api.fetch
