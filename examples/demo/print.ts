import type { DemoKeys } from './keys.ts'
import { SETTINGS_PATH } from './settings.ts'

/** Information about the running demo, as printed by `--json`. */
export interface Ready {
  readonly baseUrl: string
  readonly databaseUrl: string
  /** The process that serves requests. If it ends, all processes of the demo end. */
  readonly pid: number
  readonly organizations: readonly DemoOrganization[]
  /** The environment variables for other programs, in addition to DATABASE_URL. */
  readonly env: { readonly BUSINESS_API_SECRET_KEYS: string; readonly DATABASE_URLS?: string }
}

export interface DemoOrganization {
  readonly id: string
  readonly name: string
  readonly keys: DemoKeys
}

/** Ids of existing records, for commands that need one. */
export interface Samples {
  /** A business of the first organization. */
  readonly businessId: string
  /** A business of another organization. */
  readonly foreignBusinessId: string
}

/** Describes the running demo. Includes a command to copy for every operation of the API and for a few errors. */
export function describeReady(ready: Ready, samples: Samples, isOwnDatabase: boolean): string {
  const [first] = ready.organizations
  if (first === undefined) throw new TypeError('Cannot describe a demo without an organization')
  const { baseUrl } = ready
  return `
The business API is served at ${baseUrl}

${ready.organizations.map(describeOrganization).join('\n\n')}

Database    ${isOwnDatabase ? 'yours, of DATABASE_URL' : (ready.env.DATABASE_URLS ?? ready.databaseUrl)}
OpenAPI     ${baseUrl}/openapi.json
Settings    ${baseUrl}${SETTINGS_PATH}, the developer settings of ${first.name} in a browser

Every operation, for ${first.name}:

${describeCommands(operations(first.keys.all, samples), baseUrl)}

A few errors:

${describeCommands(mistakes(first.keys, samples), baseUrl)}

Both organizations have a subscriber that wants every event, verifies its signature and says here what it gets. A little
business goes on all the time, so every type of event is seen within half a minute; create a client, and watch
business.created and client.created arrive.

Ctrl-C ends the demo${isOwnDatabase ? '; the organizations and their keys stay in your database.' : ' and removes its data.'}
`
}

function describeOrganization({ id, name, keys }: DemoOrganization): string {
  return `${name} (${id})
  all scopes  ${keys.all}
  read only   ${keys.readOnly}
  revoked     ${keys.revoked}
  expired     ${keys.expired}`
}

// --- Commands ---

interface Command {
  readonly title: string
  readonly path: string
  /** Absent if the command doesn't use a key. */
  readonly key?: string
  /** If present, the request is a POST. */
  readonly body?: object
  readonly idempotencyKey?: string
}

function operations(key: string, { businessId }: Samples): readonly Command[] {
  const newClient = { name: 'Bleu Nuit Ceramics', city: 'Tunis', email: 'hello@bleu-nuit.example' }
  return [
    { title: 'the newest clients', path: '/api/v1/clients?limit=3', key },
    {
      title: 'a new client; send it again and the same answer is replayed',
      path: '/api/v1/clients',
      key,
      idempotencyKey: 'signup-1',
      body: newClient,
    },
    { title: 'the newest leads', path: '/api/v1/leads?limit=3', key },
    {
      title: 'a new lead from an existing business',
      path: '/api/v1/leads',
      key,
      idempotencyKey: 'form-1',
      body: { businessId },
    },
    { title: 'the newest invoices', path: '/api/v1/invoices?limit=3', key },
    { title: 'the newest proposals', path: '/api/v1/proposals?limit=3', key },
    { title: 'the newest projects', path: '/api/v1/projects?limit=3', key },
    { title: 'the description of all this; it needs no key', path: '/openapi.json' },
  ]
}

function mistakes(keys: DemoKeys, { foreignBusinessId }: Samples): readonly Command[] {
  return [
    { title: '401: no key', path: '/api/v1/clients' },
    {
      title: '401: a revoked key (an expired one looks the same)',
      path: '/api/v1/clients',
      key: keys.revoked,
    },
    {
      title: '403: a key without the scope clients:write',
      path: '/api/v1/clients',
      key: keys.readOnly,
      body: { name: 'Nobody' },
    },
    {
      title: '404: a business of another organization',
      path: '/api/v1/leads',
      key: keys.all,
      body: { businessId: foreignBusinessId },
    },
    { title: '422: a limit out of range', path: '/api/v1/invoices?limit=201', key: keys.all },
    { title: '422: a name too short', path: '/api/v1/clients', key: keys.all, body: { name: 'A' } },
  ]
}

function describeCommands(commands: readonly Command[], baseUrl: string): string {
  return commands.map((command) => `  # ${command.title}\n  ${toCurl(command, baseUrl)}`).join('\n')
}

/** Returns a command for a POSIX shell on one line. -w adds a line break after the response. */
function toCurl({ path, key, body, idempotencyKey }: Command, baseUrl: string): string {
  const parts = [`curl -isw '\\n' '${baseUrl}${path}'`]
  if (key !== undefined) parts.push(`-H 'Authorization: Bearer ${key}'`)
  if (idempotencyKey !== undefined) parts.push(`-H 'Idempotency-Key: ${idempotencyKey}'`)
  if (body !== undefined) parts.push(`-H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`)
  return parts.join(' ')
}
