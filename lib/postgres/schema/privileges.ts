// The minimum privileges of database roles. This file is long because they are all in one place.
// test/store/privileges.more.ts runs all the store's methods with these roles, and fails if a table isn't mentioned for
// any of them. Functions aren't listed unless they run as the owner, because table privileges limit what they can do.

import { businessTable } from '../../resources/businesses.ts'
import { clientTable } from '../../resources/clients.ts'
import { columnsOf, type NamedColumn } from '../../resources/columns.ts'
import { CREATED_KINDS, RECORD_KINDS, RECORD_TABLES, type RecordKind } from '../../resources/records.ts'
import { ENDPOINT_CHOICES } from '../../webhooks/endpoint-choices.ts'

/** Part of an application. Parts can have separate database roles or share them. */
export type Part = 'api' | 'platform' | 'settings' | 'worker' | 'publisher' | 'administrator' | 'eraser'

/** Table privileges, either `true` for all columns or a list of columns. */
export interface TablePrivileges {
  readonly select?: true | readonly string[]
  readonly insert?: true
  readonly update?: readonly string[]
  readonly delete?: true
}

/** Privileges inside the schema `business_api`. */
export interface Privileges {
  /** Shown along with the grants. */
  readonly purpose: string
  readonly tables: Readonly<Record<string, TablePrivileges>>
  /** Functions this part may call as the schema's owner. All other functions are granted to every part. */
  readonly functions?: readonly string[]
}

type Lists = Omit<Privileges, 'purpose'>

/** Needed by every part to explain errors by the state of the migrations, and to reject calls on the wrong shard. */
const BASE: Lists = {
  tables: { migrations: { select: ['id', 'name', 'breaking'] }, shard_places: { select: true } },
}

/** For parts that run in their own process, since the first process of a sharded store writes the map. */
const PROCESS: Lists = merge(BASE, { tables: { shard_places: { insert: true } } })

/** For parts that write events and deliveries. Of endpoints, only the state and event types are readable. */
const PUBLISHING: Lists = {
  tables: {
    events: { select: ['organization_id', 'id', 'type', 'delivery_prefix'], insert: true },
    open_deliveries: { insert: true },
    finished_deliveries: { insert: true },
    webhook_endpoints: { select: ['organization_id', 'id', 'state', 'types'] },
    event_limits: { select: true },
    event_types: { select: true },
    event_days: { select: true },
    event_ids: { select: true, insert: true },
    shard_places: { select: true },
  },
  functions: ['make_days', 'make_days_ahead'],
}

/** For parts that reserve idempotency keys. An expired entry is taken over with an update. */
const IDEMPOTENCY: Lists = {
  tables: {
    idempotency_keys: {
      select: true,
      insert: true,
      update: ['fingerprint', 'record_id', 'reply', 'expires_at'],
    },
  },
}

/** Columns set by every record update. */
const CHANGED = ['changed_xid', 'updated_at'] as const

/**
 * Returns table privileges for some record kinds.
 *
 * - `read`: all columns.
 * - `add`: all columns of new records, and the function that builds their representation.
 * - `import`: same as `add`, plus writing a client into the row of its business.
 * - `change`: same as `add`, plus the columns a change may set.
 * - `erase`: personal data, and whole records.
 */
function records(use: 'read' | 'add' | 'import' | 'change' | 'erase', kinds: readonly RecordKind[]): Lists {
  const lists = kinds.map((kind): Lists => {
    const { table } = RECORD_TABLES[kind]
    const columns = columnsOf(RECORD_TABLES[kind])
    const namesOf = (isNamed: (column: NamedColumn) => boolean): readonly string[] =>
      columns.filter(isNamed).map(({ name }) => name)
    const only = (privileges: TablePrivileges): Lists => ({ tables: { [table]: privileges } })
    if (use === 'read') return only({ select: true })
    if (use === 'erase') {
      const personal = namesOf(({ forgotten }) => forgotten !== undefined)
      const update = personal.length > 0 ? [...personal, ...CHANGED] : []
      return only({ select: true, ...updating(update), delete: true })
    }
    const update = [
      ...(kind === 'client' && use !== 'add' ? [...namesOf(() => true), ...CHANGED] : []),
      ...(use === 'change' ? namesOf(({ isChangeable }) => isChangeable === true) : []),
      ...(kind !== 'payment' && use === 'change' ? ['latest_changes', ...CHANGED] : []),
    ]
    return only({ select: true, insert: true, ...updating(update) })
  })
  return merge(...lists)
}

const API = merge(
  PROCESS,
  PUBLISHING,
  IDEMPOTENCY,
  records('add', CREATED_KINDS),
  // For the API's lists.
  records(
    'read',
    RECORD_KINDS.filter((kind) => kind !== 'payment'),
  ),
  {
    tables: {
      api_keys: {
        select: [
          'organization_id',
          'id',
          'digest',
          'scopes',
          'per_second',
          'burst',
          'expires_at',
          'revoked_at',
          'last_used_at',
        ],
        update: ['last_used_at'],
      },
      organization_limits: { select: true },
      api_requests: { insert: true },
      rate_buckets: {
        select: true,
        insert: true,
        update: ['full_at'],
      },
    },
  },
)

const PLATFORM = merge(PROCESS, PUBLISHING, IDEMPOTENCY, records('change', RECORD_KINDS), {
  tables: {
    // For the host's own routes, where a revoked key must not write anything.
    api_keys: { select: ['organization_id', 'id', 'expires_at', 'revoked_at'] },
    invoices: { update: ['amount_paid'] },
    proposals: { update: ['version'] },
    number_series: { select: true, insert: true, update: ['last'] },
    // For reversed payments.
    audit_entries: { insert: true },
  },
})

const SETTINGS = merge(PROCESS, {
  tables: {
    api_keys: { select: true, insert: true, update: ['name', 'revoked_at', 'expires_at', 'successor_id'] },
    organization_limits: { select: true, insert: true, update: ['per_second', 'burst'], delete: true },
    rate_buckets: { select: true, update: ['full_at'] },
    settings_turns: { select: true, insert: true, update: ['turn'] },
    audit_entries: { select: true, insert: true, update: ['details'] },
    webhook_endpoints: {
      select: true,
      insert: true,
      update: [
        ...ENDPOINT_CHOICES.map(({ name }) => name),
        'version',
        'header_names',
        'sealed_headers',
        'sealed_secret',
        'previous_sealed_secret',
        'previous_secret_expires_at',
        'state',
        'disabled_reason',
        'failures',
        'failing_since',
      ],
    },
    endpoint_rates: { select: ['organization_id', 'endpoint_id'], delete: true },
    endpoint_activity: { select: true, insert: true, update: ['counts'] },
    api_requests: { select: true },
    // Moving a delivery between the two tables locks its row, which requires the privilege to update a column.
    open_deliveries: {
      select: true,
      insert: true,
      update: ['due_at', 'is_backing_off', 'attempts_before'],
      delete: true,
    },
    finished_deliveries: { select: true, insert: true, update: ['finished_at'], delete: true },
    events: { select: true, insert: true },
    event_days: { select: true },
    event_ids: { select: true, insert: true },
    delivery_attempts: { select: true },
    invoices: { select: ['organization_id', 'id', 'number'] },
    // For backfills.
    businesses: {
      select: [
        'organization_id',
        ...[...columnsOf(businessTable), ...columnsOf(clientTable)].map(({ name }) => name),
        ...CHANGED,
        'representation',
      ],
    },
    leads: { select: ['organization_id', 'id', 'business_id', 'representation'] },
    proposals: { select: ['organization_id', 'id', 'number', 'representation'] },
  },
  functions: ['make_days', 'make_days_ahead'],
})

const IMPORTING = merge(records('import', RECORD_KINDS), {
  tables: { number_series: { select: true, insert: true, update: ['last'] } },
})

const WORKER = merge(PROCESS, PUBLISHING, {
  tables: {
    installation: { select: true, insert: true, update: ['name', 'identity'] },
    open_deliveries: {
      select: true,
      update: ['due_at', 'attempts', 'is_backing_off', 'claim_token', 'claimed_at', 'lease_until'],
      delete: true,
    },
    // Rows are locked before they're deleted, which requires the privilege to update a column. These columns are
    // harmless because they can't be used to move a row to another organization.
    finished_deliveries: { select: true, insert: true, update: ['finished_at'], delete: true },
    events: { select: true, update: ['traceparent'], delete: true },
    event_ids: { select: true, delete: true },
    idempotency_keys: {
      select: ['organization_id', 'operation', 'key', 'expires_at'],
      update: ['expires_at'],
      delete: true,
    },
    delivery_attempts: { select: true, insert: true, delete: true },
    webhook_endpoints: {
      select: true,
      update: [
        'state',
        'disabled_reason',
        'failures',
        'failing_since',
        'noticed_attempt',
        'secret_expiry_noticed',
        'secret_expiry_noticed_by',
      ],
      delete: true,
    },
    endpoint_rates: {
      select: true,
      insert: true,
      update: [
        'rate',
        'ceiling',
        'rejected_at',
        'accepted',
        'wait_ms',
        'waited_ms',
        'next_at',
        'probe_id',
        'probe_token',
      ],
      delete: true,
    },
    endpoint_activity: { select: true, insert: true, update: ['counts'], delete: true },
    api_keys: {
      select: [
        'organization_id',
        'id',
        'name',
        'expires_at',
        'revoked_at',
        'successor_id',
        'expiry_noticed',
        'expiry_noticed_by',
      ],
      update: ['expiry_noticed', 'expiry_noticed_by'],
    },
    invoices: { select: true, update: ['status', 'changed_xid', 'updated_at'] },
    purge_progress: {
      select: true,
      update: ['retention_ms', 'cursor', 'second_cursor', 'second_pass_at', 'purged_at', 'paused_until'],
    },
  },
  functions: [
    'make_days',
    'make_days_ahead',
    'purge_days',
    'late_day_ms',
    'erase_ended_secrets',
    'purge_api_requests',
  ],
})

/** For deleting organizations and erasing personal data. */
const ERASING = merge(records('erase', RECORD_KINDS), {
  tables: {
    api_keys: { select: true, update: ['revoked_at'], delete: true },
    webhook_endpoints: {
      select: true,
      update: [
        'state',
        'sealed_secret',
        'previous_sealed_secret',
        'previous_secret_expires_at',
        'sealed_headers',
      ],
      delete: true,
    },
    delivery_attempts: { select: true, update: ['body_excerpt', 'location', 'headers'], delete: true },
    open_deliveries: { select: true, delete: true },
    finished_deliveries: { select: true, delete: true },
    events: { select: true, update: ['body'], delete: true },
    event_ids: { select: true, delete: true },
    idempotency_keys: { select: true, update: ['reply'], delete: true },
    number_series: { select: true, delete: true },
    audit_entries: { select: true, delete: true },
    organization_limits: { select: true, delete: true },
    rate_buckets: { select: true, delete: true },
    settings_turns: { select: true, delete: true },
    endpoint_rates: { select: true, delete: true },
    endpoint_activity: { select: true, delete: true },
    api_requests: { select: true, delete: true },
  },
})

/** Privileges by part. */
export const PRIVILEGES: Readonly<Record<Part, Privileges>> = {
  api: { purpose: 'createBusinessApi: serves the REST API, and reads no sealed secret', ...API },
  platform: { purpose: "createPlatform: the host's own calls", ...PLATFORM },
  settings: {
    purpose: 'createDeveloperSettings: API keys, endpoints, secrets, the delivery log',
    ...SETTINGS,
  },
  worker: { purpose: 'createDeliveryLoop: sends events, and forgets what is old', ...WORKER },
  publisher: {
    purpose: 'business_api.publish_event, from any language',
    ...PUBLISHING,
  },
  administrator: {
    purpose: 'every command of business-api-kit except migrate and organizations',
    ...merge(SETTINGS, WORKER, IMPORTING),
  },
  eraser: {
    purpose:
      'the deletion of organizations and of personal values, with the calls of createDeveloperSettings',
    ...merge(BASE, ERASING),
  },
}

/** All parts, in the order of {@link PRIVILEGES}. */
export const PARTS = Object.keys(PRIVILEGES) as readonly Part[]

function merge(...lists: readonly Lists[]): Lists {
  const tables: Record<string, TablePrivileges> = {}
  for (const [name, privileges] of lists.flatMap((list) => Object.entries(list.tables))) {
    tables[name] = mergeTable(tables[name] ?? {}, privileges)
  }
  return { tables, functions: [...new Set(lists.flatMap(({ functions = [] }) => functions))] }
}

function mergeTable(some: TablePrivileges, more: TablePrivileges): TablePrivileges {
  const select =
    some.select === true || more.select === true ? true : union(some.select ?? [], more.select ?? [])
  const update = union(some.update ?? [], more.update ?? [])
  return {
    ...some,
    ...more,
    ...(select === true || select.length > 0 ? { select } : {}),
    ...updating(update),
  }
}

function updating(update: readonly string[]): Pick<TablePrivileges, 'update'> {
  return update.length > 0 ? { update } : {}
}

function union(some: readonly string[], more: readonly string[]): readonly string[] {
  return [...new Set([...some, ...more])]
}
