import { createDeveloperSettings } from 'business-api-kit/settings'
import { createSettingsPage } from 'business-api-kit/settings-page'
import { createWebhookSender } from 'business-api-kit/webhooks'
import { api } from './api'
import { kept } from './kept'
import { store } from './store'

const settings = createDeveloperSettings(store, {
  secretKeys: process.env.BUSINESS_API_SECRET_KEYS?.split(','),
  sender: kept('sender', () => createWebhookSender()),
})

export const page = createSettingsPage(settings, {
  basePath: '/settings/developer',
  api,
  authorize: (request) => {
    // Put the app's own session here, as `await auth()` of Auth.js. This example has a single token for a single person.
    const token = process.env.SETTINGS_TOKEN
    const isSignedIn =
      token !== undefined && request.header('cookie')?.split('; ').includes(`session=${token}`)
    return isSignedIn ? { organizationId: 'org_42', actor: 'ada@example.com', can: 'everything' } : null
  },
})
