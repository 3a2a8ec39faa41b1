import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { defineService, type Service, type ServiceOptions } from '../service.ts'
import { UsageError } from './failure.ts'

/**
 * Loads the service from one of the host's modules. The host's processes should use the same module.
 *
 * @param path the module, or `undefined` for the default names
 * @throws `UsageError`
 */
export async function readService(path: string | undefined): Promise<Service> {
  try {
    if (path === undefined) return defineService()
    const { service }: { readonly service?: ServiceOptions } = await import(pathToFileURL(resolve(path)).href)
    if (service instanceof Object) return defineService(service)
    throw new TypeError("it has no export 'service': add export const service = defineService({ … })")
  } catch (error) {
    throw new UsageError(`Cannot use the module of --service: ${(error as Error).message}`)
  }
}
