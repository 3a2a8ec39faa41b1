import type { BusinessApi, BusinessApiStore } from 'business-api-kit'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createSettingsPage, type SettingsPage } from 'business-api-kit/settings-page'
import { createWebhookSender } from 'business-api-kit/webhooks'
import type { Ending } from './ending.ts'
import type { DemoOrganization } from './print.ts'

/** The path of the settings page in the demo. */
export const SETTINGS_PATH = '/settings'

/** The developer settings of one organization, for everybody on this machine: the demo has no sign-in. */
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
    // A name of another site may lead to this machine, but that site's pages may not lead here.
    authorize: ({ header }) =>
      /^(127\.0\.0\.1|localhost)(:\d+)?$/.test(header('host') ?? '')
        ? { organizationId: id, organizationName: name, actor: 'you', can: 'everything' }
        : null,
  })
}
