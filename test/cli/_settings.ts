import { jsonOf, type Result } from './_cli.ts'

/** Runs a command line on the test's database. */
type Run = (...args: readonly string[]) => Promise<Result>

let organizations = 0

/** An organization that is only used by one test. */
export const newOrganization = (): string => `org_cli_${++organizations}`

/** The control characters for redrawing a bar. */
export const ERASE = '\r\x1b[K'

/** Allows endpoints on this machine. */
export const DEVELOPMENT: readonly string[] = ['--allow-private-networks', '--allow-http']

/** Registers an endpoint for an organization. */
export async function addEndpoint(
  run: Run,
  org: string,
  ...flags: readonly string[]
): Promise<{ id: string; secret: string }> {
  const url = ['--url', 'http://127.0.0.1:4000/hook']
  return jsonOf(
    await run('endpoints', 'add', '--organization', org, ...url, ...DEVELOPMENT, '--json', ...flags),
  )
}

/** An endpoint in the output of `endpoints list`. */
export async function findEndpoint(
  run: Run,
  org: string,
  id: string,
): Promise<ReturnType<typeof JSON.parse>> {
  const { data } = jsonOf(await run('endpoints', 'list', '--organization', org, '--json'))
  return data.find((endpoint: { id: string }) => endpoint.id === id)
}
