// Migrates the database. This should be part of the deployment and not of the app, which may start in many
// places at once.

import { migrate } from 'business-api-kit/postgres'

const { DATABASE_URL } = process.env
if (!DATABASE_URL) throw new Error('Set DATABASE_URL to a PostgreSQL database')
const { applied } = await migrate(DATABASE_URL)
console.log(applied.length === 0 ? 'Nothing to do' : `Applied ${applied.join(', ')}`)
