// The least privileges of database roles: a single list, and therefore a long file. test/store/privileges.more.ts carries out
// every verb of the store with these roles, and fails for a table or function of the schema that no role's list mentions.

/** A part of an application. Each part can have a database role of its own; several parts may share a role. */
export type Part = 'api' | 'platform' | 'settings' | 'worker' | 'publisher' | 'administrator' | 'eraser'

/** Privileges on a table: `true` for the whole table, else the columns. */
export interface TablePrivileges {
  readonly select?: true | readonly string[]
  readonly insert?: true
  readonly update?: readonly string[]
  readonly delete?: true
}

/** Privileges inside the schema `business_api`. */
export interface Privileges {
  /** The purpose of the part, for readers of the grants. */
  readonly purpose: string
  readonly tables: Readonly<Record<string, TablePrivileges>>
  /** Functions that the part executes, including functions that other functions call. */
  readonly functions: readonly string[]
}

type Lists = Omit<Privileges, 'purpose'>

/** For every part: errors are explained by the state of the migrations, and the first process of a sharded store writes the map. */
const BASE: Lists = {
  tables: {
    migrations: { select: ['id', 'name', 'breaking'] },
    shard_places: { select: true, insert: true },
  },
  functions: [],
}

/** The functions with which a publisher finds the day of an event, or makes it with the privileges of the schema's owner. */
const DAYS: readonly string[] = ['days_end', 'make_days', 'make_days_ahead']

/** For parts that write events with their deliveries. Of endpoints, such a part reads the state and the types only. */
const PUBLISHING: Lists = {
  tables: {
    events: { select: ['organization_id', 'id', 'type', 'delivery_prefix'], insert: true },
    open_deliveries: { insert: true },
    finished_deliveries: { insert: true },
    webhook_endpoints: { select: ['organization_id', 'id', 'state', 'types'] },
    event_limits: { select: true },
    event_days: { select: true },
    event_ids: { select: true, insert: true },
  },
  functions: ['insert_events', 'ensure_day', 'delivery_digits', ...DAYS],
}

/** For parts that reserve idempotency keys. The updates take over an expired entry. */
const IDEMPOTENCY: Lists = {
  tables: {
    idempotency_keys: {
      select: true,
      insert: true,
      update: ['fingerprint', 'record_id', 'reply', 'expires_at'],
    },
  },
  functions: [],
}

const API = merge(BASE, PUBLISHING, IDEMPOTENCY, {
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
    rate_buckets: {
      select: true,
      insert: true,
      update: ['full_at', 'held', 'held_until', 'held_before', 'held_before_until'],
    },
    businesses: { select: true, insert: true },
    clients: { select: true, insert: true },
    leads: { select: true, insert: true },
    invoices: { select: true },
    proposals: { select: true },
    projects: { select: true },
  },
  functions: [
    'business_representation',
    'client_representation',
    'lead_representation',
    'is_outdated',
    'copy_key',
    'take_tokens',
    'held_tokens',
    'table_identity',
  ],
})

/** The columns that every change of a listed record sets. */
const CHANGE_COLUMNS = ['latest_changes', 'changed_xid', 'updated_at'] as const

const PLATFORM = merge(BASE, PUBLISHING, IDEMPOTENCY, {
  tables: {
    businesses: {
      select: true,
      insert: true,
      update: ['name', 'category', 'city', 'email', 'phone', 'latest_changes', 'copied'],
    },
    clients: {
      select: true,
      insert: true,
      update: ['status', 'total_revenue', 'monthly_revenue', 'business_copy', 'copy_of', ...CHANGE_COLUMNS],
    },
    leads: { select: true, insert: true, update: ['stage', 'lead_score', 'score_band', ...CHANGE_COLUMNS] },
    invoices: {
      select: true,
      insert: true,
      update: ['status', 'issue_date', 'due_date', 'amount_paid', ...CHANGE_COLUMNS],
    },
    payments: { select: true, insert: true },
    proposals: {
      select: true,
      insert: true,
      update: [
        'title',
        'status',
        'total',
        'monthly_total',
        'currency',
        'minor_units',
        'version',
        'signed_by',
        'signed_at',
        ...CHANGE_COLUMNS,
      ],
    },
    projects: { select: true, insert: true, update: ['status', ...CHANGE_COLUMNS] },
    number_series: { select: true, insert: true, update: ['last'] },
  },
  functions: [
    'render_template',
    'render_events',
    'format_number',
    'next_number',
    'first_free_number',
    'import_records',
    'new_id',
    'is_outdated',
    'copy_key',
    'copy_to_client',
    'renew_copy',
    'insert_converted_client',
    'business_representation',
    'client_representation',
    'lead_representation',
    'invoice_representation',
    'proposal_representation',
    'project_representation',
  ],
})

const SETTINGS = merge(BASE, {
  tables: {
    api_keys: { select: true, insert: true, update: ['name', 'revoked_at', 'expires_at', 'successor_id'] },
    organization_limits: { select: true, insert: true, update: ['per_second', 'burst'], delete: true },
    rate_buckets: { select: true, update: ['full_at', 'held', 'held_before'] },
    settings_turns: { select: true, insert: true, update: ['turn'] },
    audit_entries: { select: true, insert: true, update: ['details'] },
    webhook_endpoints: {
      select: true,
      insert: true,
      update: [
        'url',
        'description',
        'types',
        'header_names',
        'sealed_headers',
        'standard_webhooks',
        'sealed_secret',
        'previous_sealed_secret',
        'previous_secret_expires_at',
        'state',
        'disabled_reason',
        'failures',
        'failing_since',
      ],
    },
    // A delivery is moved between the two tables, under a lock: locking needs the privilege to update a column.
    open_deliveries: { select: true, insert: true, update: ['due_at'], delete: true },
    finished_deliveries: { select: true, insert: true, update: ['finished_at'], delete: true },
    events: { select: true, insert: true },
    event_days: { select: true },
    event_ids: { select: true, insert: true },
    delivery_attempts: { select: true },
    // The records of a backfill.
    businesses: { select: ['organization_id', 'id', 'representation'] },
    clients: { select: ['organization_id', 'id', 'business_id', 'representation'] },
    leads: { select: ['organization_id', 'id', 'business_id', 'representation'] },
    proposals: { select: ['organization_id', 'id', 'representation'] },
  },
  functions: [
    'backfill_part',
    'backfill_records',
    'delivery_digits',
    ...DAYS,
    'find_events',
    'list_events',
    'list_events_since',
    'day_bound',
    'deliveries_of_event',
    'deliveries_of_events',
    'list_open_deliveries',
    'list_newest_finished',
    'list_oldest_finished',
    'last_attempts',
    'id_time',
    'render_template',
    'take_settings_turn',
    'count_api_keys_in_force',
    'insert_api_key',
    'rotate_api_key',
    'insert_endpoint',
    'is_recorded',
    'is_change_made',
    'record_test',
    'reopen_deliveries',
  ],
})

/** For the import of records. */
const IMPORTING: Lists = {
  tables: {
    // `copied`, for the copy of a new client: sql/11-clients.sql.
    businesses: { select: true, insert: true, update: ['copied'] },
    clients: { select: true, insert: true },
    leads: { select: true, insert: true },
    proposals: { select: true, insert: true },
    invoices: { select: true, insert: true },
    payments: { select: true, insert: true },
    projects: { select: true, insert: true },
    number_series: { select: true, insert: true, update: ['last'] },
  },
  functions: [
    'import_records',
    'is_outdated',
    'copy_key',
    'business_representation',
    'client_representation',
    'lead_representation',
    'invoice_representation',
    'proposal_representation',
    'project_representation',
  ],
}

const WORKER = merge(BASE, PUBLISHING, {
  tables: {
    open_deliveries: {
      select: true,
      update: ['due_at', 'attempts', 'is_backing_off', 'claim_token', 'claimed_at', 'lease_until'],
      delete: true,
    },
    // Rows are locked before a delete, and locking needs the privilege to update a column. These columns are harmless: no update of
    // them moves a row to another organization.
    finished_deliveries: { select: true, insert: true, update: ['finished_at'], delete: true },
    events: { select: true, update: ['created_at'], delete: true },
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
    'claim_deliveries',
    'pick_deliveries',
    'scan_due_deliveries',
    'fit_bodies',
    'reclaim_lease',
    'reclaim_expired_leases',
    'promote_due_retries',
    'skip_pending',
    'read_deliveries',
    'read_claims',
    'release_deliveries',
    'hold_deliveries',
    'write_attempt_results',
    'end_attempts',
    'judge_endpoint',
    'report_results',
    'recall_attempt_results',
    'continue_purge',
    'purge_part',
    'purge_events',
    'purge_idempotency_keys',
    'purge_removed_endpoints',
    'purge_lag',
    'late_day_ms',
    // Makes and drops days with the privileges of the schema's owner, also where it calls the functions after it.
    'purge_days',
    'make_day',
    'unlisted_days',
    'tables_of_day',
    'day_bound',
    'find_open_delivery',
    'retained_deliveries',
    'day_grace_ms',
    'day_width',
    'count_queue',
    'render_template',
    'new_id',
    'invoice_representation',
  ],
})

/** For the export of an organization's records. */
const EXPORTING: Lists = {
  tables: {
    businesses: { select: true },
    clients: { select: true },
    leads: { select: true },
    proposals: { select: true },
    invoices: { select: true },
    payments: { select: true },
    projects: { select: true },
  },
  functions: [],
}

/** For the deletion of organizations, and of personal values of a business. */
const ERASING: Lists = {
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
    delivery_attempts: { select: true, update: ['body_excerpt'], delete: true },
    open_deliveries: { select: true, delete: true },
    finished_deliveries: { select: true, delete: true },
    events: { select: true, update: ['body'], delete: true },
    event_ids: { select: true, delete: true },
    idempotency_keys: { select: true, update: ['reply'], delete: true },
    payments: { select: true, delete: true },
    invoices: { select: true, delete: true },
    leads: { select: true, delete: true },
    clients: {
      select: true,
      update: ['business_copy', 'copy_of', 'changed_xid', 'updated_at'],
      delete: true,
    },
    businesses: {
      select: true,
      update: ['name', 'category', 'city', 'email', 'phone', 'copied'],
      delete: true,
    },
    proposals: { select: true, update: ['signed_by', 'changed_xid', 'updated_at'], delete: true },
    projects: { select: true, delete: true },
    number_series: { select: true, delete: true },
    audit_entries: { select: true, delete: true },
    organization_limits: { select: true, delete: true },
    rate_buckets: { select: true, delete: true },
    settings_turns: { select: true, delete: true },
  },
  functions: [
    'delete_organization_part',
    'literals_of',
    'deliveries_of_event',
    'forget_business_part',
    'forget_business_in',
    'is_outdated',
    'copy_key',
    'copy_to_client',
    'business_representation',
    'client_representation',
    'proposal_representation',
  ],
}

/** The privileges of each part. */
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
    ...merge(PUBLISHING, {
      tables: {},
      functions: ['publish_event', 'event_types', 'new_id'],
    }),
  },
  administrator: {
    purpose: 'every command of business-api-kit except migrate and organizations',
    ...merge(SETTINGS, WORKER, EXPORTING, IMPORTING),
  },
  eraser: {
    purpose:
      'the deletion of organizations and of personal values, with the calls of createDeveloperSettings',
    ...merge(BASE, ERASING),
  },
}

/** Every part, in the order of the lists. */
export const PARTS = Object.keys(PRIVILEGES) as readonly Part[]

function merge(...lists: readonly Lists[]): Lists {
  const tables: Record<string, TablePrivileges> = {}
  for (const [name, privileges] of lists.flatMap((list) => Object.entries(list.tables))) {
    tables[name] = mergeTable(tables[name] ?? {}, privileges)
  }
  return { tables, functions: [...new Set(lists.flatMap(({ functions }) => functions))] }
}

function mergeTable(some: TablePrivileges, more: TablePrivileges): TablePrivileges {
  const select =
    some.select === true || more.select === true ? true : union(some.select ?? [], more.select ?? [])
  const update = union(some.update ?? [], more.update ?? [])
  return {
    ...some,
    ...more,
    ...(select === true || select.length > 0 ? { select } : {}),
    ...(update.length > 0 ? { update } : {}),
  }
}

function union(some: readonly string[], more: readonly string[]): readonly string[] {
  return [...new Set([...some, ...more])]
}
