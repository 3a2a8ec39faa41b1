import { type Mounted, mount } from '../http/mount.ts'
import type { DeveloperSettings } from '../settings/developer-settings.ts'
import { createHandler } from './handler.ts'
import { readOptions, type SettingsPageOptions } from './options.ts'

// An interface, so that the type of the result has a name in the declarations of a host.
/** The page as a request handler, in every form that hosts call handlers in. */
export interface SettingsPage extends Mounted {}

/**
 * Serves the developer settings of an organization as HTML: API keys, webhook endpoints, the delivery log, the audit log and
 * the reference of the API. Works without JavaScript. Opens nothing and sets no timer.
 *
 * @param settings the calls behind the page: `createDeveloperSettings`
 * @throws `TypeError` naming the option that cannot be used
 */
export function createSettingsPage(settings: DeveloperSettings, options: SettingsPageOptions): SettingsPage {
  const resolved = readOptions(options)
  return mount(createHandler(settings, resolved), resolved.basePath)
}
