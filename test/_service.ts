import { defineService, type Service, type ServiceOptions } from '../lib/service.ts'

/** The same store with another service. */
export function named<Store extends { readonly service: Service }>(
  store: Store,
  names: ServiceOptions,
): Store {
  return { ...store, service: defineService(names) }
}
