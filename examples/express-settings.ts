// The developer settings in an Express app, behind the app's own login and with its own bar and color. A real app
// already has sessions and users. Here we use a cookie and a map instead.
//
//   DATABASE_URL=postgres://… BUSINESS_API_SECRET_KEYS=… PORT=3000 npx tsx examples/express-settings.ts

import { randomUUID } from 'node:crypto'
import { createBusinessApi } from 'business-api-kit'
import { createPostgresStore, migrate } from 'business-api-kit/postgres'
import { createDeveloperSettings } from 'business-api-kit/settings'
import {
  type Access,
  createSettingsPage,
  type LayoutParts,
  type SettingsPageRequest,
} from 'business-api-kit/settings-page'
import { createWebhookSender } from 'business-api-kit/webhooks'
import express, { type Request } from 'express'

const { DATABASE_URL, BUSINESS_API_SECRET_KEYS, PORT = '3000' } = process.env
if (!DATABASE_URL || !BUSINESS_API_SECRET_KEYS) {
  console.error(
    'Set DATABASE_URL to a PostgreSQL database, and BUSINESS_API_SECRET_KEYS to 32 random bytes in base64',
  )
  process.exit(2)
}
await migrate(DATABASE_URL)

const store = createPostgresStore(DATABASE_URL)
const sender = createWebhookSender()
const api = createBusinessApi(store)
const settings = createDeveloperSettings(store, { secretKeys: BUSINESS_API_SECRET_KEYS.split(','), sender })
const app = express()

// --- The app's own login ---

const sessions = new Map<string, Access>()

function sessionOf(request: Request): Access | undefined {
  const [, id = ''] = /(?:^|; )session=([\w-]+)/.exec(request.get('Cookie') ?? '') ?? []
  return sessions.get(id)
}

app.get('/login', (_request, response) => {
  const id = randomUUID()
  sessions.set(id, {
    organizationId: 'org_42',
    organizationName: 'Atlas',
    actor: 'ada@example.com',
    can: 'everything',
  })
  response.cookie('session', id, { httpOnly: true, sameSite: 'lax' }).redirect('/settings/developer')
})
app.post('/logout', (request, response) => {
  for (const [id, session] of sessions) if (session === sessionOf(request)) sessions.delete(id)
  response.redirect('/login')
})

// --- The app's own layout ---

app.get('/app.css', (_request, response) => {
  response
    .type('css')
    .send(
      'body { margin: 0 } .app-bar { display: flex; gap: 1rem; padding: 1rem; background: #3d1152 } .app-bar a { color: #fff }',
    )
})

// The page's Content-Security-Policy applies to the whole document, so styles and scripts must be same-origin files.
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

// --- The page ---

app.use(
  '/settings/developer',
  createSettingsPage(settings, {
    api,
    layout,
    theme: { light: { accent: '#7a1fa2', focus: '#7a1fa2' }, dark: { accent: '#d9a8f0', focus: '#d9a8f0' } },
    authorize: ({ raw }: SettingsPageRequest<Request>) => sessionOf(raw) ?? { redirect: '/login' },
  }),
)
app.use('/platform', api)

const server = app.listen(Number(PORT), () => console.log('Listening on', server.address()))

process.once('SIGTERM', () => {
  server.close(async () => {
    await sender.close()
    await store.close()
  })
  // Otherwise a connection that never sends a whole request would keep the server open forever.
  setTimeout(() => server.closeAllConnections(), 5000).unref()
})
