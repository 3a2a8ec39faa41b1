export type { BusinessApiStore, RecordStore } from './business-store.ts'
export { createMemoryStore, type MemoryStore, type MemoryStoreOptions } from './memory/store.ts'
export type { EventDefinition } from './resources/own-events.ts'
export type { Service } from './service.ts'
