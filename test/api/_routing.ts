import { after } from 'node:test'
import {
  type Answer,
  OPERATIONS,
  rawHead,
  rawRequest,
  serve,
  startPlatform,
  type TestServer,
} from './_api.ts'

export const platform = await startPlatform()
export const api = platform.apiWith({ rateLimit: false })
export const server = await serve((incoming, response) => api(incoming, response))
export const { key } = await platform.organization()
after(async () => {
  await server.close()
  await platform.close()
})

export const AUTHORIZATION = `Authorization: Bearer ${key}`
export const PATHS = [...new Set(OPERATIONS.map(({ path }) => path))]

/** Sends a GET request with a valid key, without changing the target. */
export function get(target: string, to: TestServer = server, ...headers: string[]): Promise<Answer> {
  return rawRequest(to, rawHead(`GET ${target}`, AUTHORIZATION, ...headers))
}
