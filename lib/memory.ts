export { createMemoryStore, type MemoryStore, type MemoryStoreOptions } from './memory/store.ts'
export type { BusinessStore, RecordStore } from './store.ts'
