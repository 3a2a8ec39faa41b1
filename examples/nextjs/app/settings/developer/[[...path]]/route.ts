// The developer settings, behind the app's own session. See lib/settings.ts.

import { page } from '../../../../lib/settings'

export const GET = page.fetch
export const POST = page.fetch
