import type { Clock } from '../../lib/base/ids.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import type { BusinessApiStore } from '../../lib/store.ts'

// A store with a deliberate bug. It writes new clients without their events.

export function createStore(options: { clock: Clock }): BusinessApiStore {
  const store = createMemoryStore(options)
  return {
    ...store,
    clients: { ...store.clients, create: (creation) => store.clients.create({ ...creation, events: [] }) },
  }
}
