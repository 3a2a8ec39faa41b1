export { newEntry } from './contract/audit-entry.ts'
