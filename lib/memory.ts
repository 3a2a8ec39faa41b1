export type { BusinessApiStore, RecordStore } from './business-store.ts'
export { createMemoryStore, type MemoryStore, type MemoryStoreOptions } from './memory/store.ts'
export type { Service } from './service.ts'
