import { RESOURCES, type Resource, SCOPES } from '../access/scopes.ts'
import { rejectUnknown } from '../base/options.ts'
import type { ListedReads } from '../resources/record-reads.ts'
import type { CreateInputs, RecordSlices } from '../resources/records.ts'
import type { AnswerBody } from './attempt.ts'
import { createCaller } from './call.ts'
import { type ApiClientOptions, type CallOptions, resolveClientOptions } from './client-options.ts'
import { createList, type List, type ListOptions } from './lists.ts'

// --- Types ---

/** Options for create calls. */
export interface CreateOptions extends CallOptions {
  /**
   * 1 to 200 visible ASCII characters. Two calls with the same key within 7 days only create one record, even
   * from different processes. For example, use a form submission's id. By default, each call generates a key
   * for its retries.
   */
  readonly idempotencyKey?: string | undefined
}

/** A resource that can be listed. Calls throw a `RangeError` if the API would reject the page size. */
export interface Listable<Item> {
  /** Lists the records, newest first. For example, `for await (const item of api.clients.list())`. */
  list(options?: ListOptions): List<Item>
}

/** A resource that can be listed and created. */
export interface Creatable<Item, Input> extends Listable<Item> {
  /** Creates a record, exactly once even if requests or responses get lost and are retried. */
  create(input: Input, options?: CreateOptions): Promise<Item>
}

/**
 * The API's operations (see section 4 of the spec) by resource. Scopes have the same names, for example `clients:read`
 * and `clients:write`. Calls reject with an `ApiError` or a signal's reason. Amounts are decimal strings. Never add them
 * as floating-point numbers.
 */
export type ApiClient = {
  readonly [Name in Resource]: Name extends keyof CreateInputs
    ? Creatable<Shown<RecordSlices[Name]>, CreateInputs[Name]>
    : Listable<Shown<RecordSlices[Name]>>
}

/** A resource's record, as returned by the API. */
type Shown<Slice> = Slice extends Pick<ListedReads<infer Item, never, never>, 'admitAndList'> ? Item : never

// --- Factory ---

/**
 * Creates an API client. It doesn't send anything before the first call.
 *
 * @throws `TypeError` or `RangeError` naming the invalid option
 *
 * @example
 * ```ts
 * const client = createApiClient({ url: 'https://app.example', key: process.env.API_KEY ?? '' })
 * for await (const lead of client.leads.list()) console.log(lead.id)
 * ```
 */
export function createApiClient(options: ApiClientOptions): ApiClient {
  const resolved = resolveClientOptions(options)
  const call = createCaller(resolved)

  function operationsOf(resource: Resource): object {
    const url = `${resolved.url}/api/v1/${resource}`
    const list = (given?: ListOptions): List<unknown> => createList(call, resource, url, given)
    if (!SCOPES.some((scope) => scope === `${resource}:write`)) return { list }
    const create = async (input: unknown, given: CreateOptions = {}): Promise<unknown> => {
      rejectUnknown(given, { signal: true, idempotencyKey: true })
      const { idempotencyKey, signal } = given
      const request = {
        action: `create a ${resource.slice(0, -1)}`,
        method: 'POST',
        url,
        body: JSON.stringify(input),
        idempotencyKey: readIdempotencyKey(idempotencyKey),
      } as const
      return (await call(request, readRecord, { signal })).data
    }
    return { list, create }
  }

  return Object.fromEntries(RESOURCES.map((name) => [name, operationsOf(name)])) as ApiClient
}

function readIdempotencyKey(key: string = crypto.randomUUID()): string {
  if (/^[!-~]{1,200}$/.test(key)) return key
  throw new TypeError("Option 'idempotencyKey' must be 1 to 200 visible ASCII characters")
}

function readRecord({ data }: AnswerBody): object | undefined {
  return typeof data === 'object' && data !== null && !Array.isArray(data) ? data : undefined
}
