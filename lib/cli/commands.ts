import { audit } from './audit.ts'
import type { Command, Group } from './command.ts'
import { deliver } from './deliver.ts'
import { deliveries } from './deliveries.ts'
import { doctor } from './doctor.ts'
import { endpoints } from './endpoints.ts'
import { keys } from './keys.ts'
import { migrateCommand } from './migrate.ts'
import { purge } from './purge.ts'
import { status } from './status.ts'

/** Everything that can be asked for, in the order in which one comes to need it. */
export const COMMANDS: readonly (Command | Group)[] = [
  migrateCommand,
  status,
  doctor,
  keys,
  endpoints,
  deliveries,
  audit,
  deliver,
  purge,
]
