import type { Command, Group } from './command.ts'
import { activity } from './commands/activity.ts'
import { adopt } from './commands/adopt.ts'
import { audit } from './commands/audit.ts'
import { deliver } from './commands/deliver.ts'
import { deliveries } from './commands/deliveries.ts'
import { doctor } from './commands/doctor.ts'
import { endpoints } from './commands/endpoints.ts'
import { events } from './commands/events.ts'
import { exportCommand } from './commands/export.ts'
import { grants } from './commands/grants.ts'
import { importCommand } from './commands/import.ts'
import { keys } from './commands/keys.ts'
import { limits } from './commands/limits.ts'
import { listen } from './commands/listen.ts'
import { migrateCommand } from './commands/migrate.ts'
import { organizations } from './commands/organizations.ts'
import { purge } from './commands/purge.ts'
import { requests } from './commands/requests.ts'
import { shards } from './commands/shards.ts'
import { status } from './commands/status.ts'
import { trigger } from './commands/trigger.ts'

/** All commands, roughly in the order a new user needs them. */
export const COMMANDS: readonly (Command | Group)[] = [
  migrateCommand,
  grants,
  status,
  doctor,
  keys,
  limits,
  endpoints,
  events,
  deliveries,
  activity,
  requests,
  audit,
  deliver,
  adopt,
  listen,
  trigger,
  exportCommand,
  purge,
  importCommand,
  organizations,
  shards,
]
