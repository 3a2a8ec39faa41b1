import type { BusinessApi, BusinessApiStore } from 'business-api-kit'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createSettingsPage, type SettingsPage } from 'business-api-kit/settings-page'
import { createWebhookSender } from 'business-api-kit/webhooks'
import type { Ending } from './ending.ts'
import type { DemoOrganization } from './print.ts'

/** The path of the settings page in the demo. */
export const SETTINGS_PATH = '/settings'

/** Serves the developer settings of one organization to everyone on this machine, since the demo has no login. */
export function serveSettings(
  store: BusinessApiStore,
  api: BusinessApi,
  { id, name }: DemoOrganization,
  secretKeys: readonly string[],
  ending: Ending,
): SettingsPage {
  const sender = createWebhookSender({ localDevelopment: true })
  ending.add(() => sender.close())
  return createSettingsPage(createDeveloperSettings(store, { secretKeys, sender }), {
    basePath: SETTINGS_PATH,
    api,
    // A different host name may resolve to this machine, but pages of that site must not be able to use this one.
    authorize: ({ header }) =>
      /^(127\.0\.0\.1|localhost)(:\d+)?$/.test(header('host') ?? '')
        ? { organizationId: id, organizationName: name, actor: 'you', can: 'everything' }
        : null,
  })
}
