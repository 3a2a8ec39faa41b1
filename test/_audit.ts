export { newEntry } from '../lib/testing/store-contract/audit-entry.ts'
