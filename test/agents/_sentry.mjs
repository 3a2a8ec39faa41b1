import * as Sentry from '@sentry/node'

Sentry.init({ dsn: 'https://public@127.0.0.1:9/1', environment: 'production', tracesSampleRate: 1 })
