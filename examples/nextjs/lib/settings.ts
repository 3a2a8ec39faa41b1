import { createDeveloperSettings } from 'business-api-kit/settings'
import { createSettingsPage, type LayoutParts } from 'business-api-kit/settings-page'
import { createWebhookSender } from 'business-api-kit/webhooks'
import { api } from './api'
import { kept } from './kept'
import { store } from './store'

const settings = createDeveloperSettings(store, {
  secretKeys: process.env.BUSINESS_API_SECRET_KEYS?.split(','),
  sender: kept('sender', () => createWebhookSender()),
})

// The route responds with its own document, which doesn't use React's layout.tsx, so we need the app's bar again. Its
// stylesheet is public/app.css, because the page's Content-Security-Policy doesn't allow inline styles.
const layout = ({ lang, head, body }: LayoutParts): string => `<!doctype html>
<html lang="${lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/app.css">
${head}
</head>
<body>
<nav class="app-bar" aria-label="Atlas Studio"><a href="/">Atlas Studio</a> <a href="/settings/developer">Settings</a></nav>
${body}
</body>
</html>
`

export const page = createSettingsPage(settings, {
  basePath: '/settings/developer',
  api,
  layout,
  theme: { light: { accent: '#7a1fa2', focus: '#7a1fa2' }, dark: { accent: '#d9a8f0', focus: '#d9a8f0' } },
  authorize: (request) => {
    // Use your app's session here, for example `await auth()` from Auth.js. This example has one user with one token.
    const token = process.env.SETTINGS_TOKEN
    const isSignedIn =
      token !== undefined && request.header('cookie')?.split('; ').includes(`session=${token}`)
    return isSignedIn ? { organizationId: 'org_42', actor: 'ada@example.com', can: 'everything' } : null
  },
})
