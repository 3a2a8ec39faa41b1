import { join } from 'node:path'
import { startHost } from '../settings-page/_host.ts'
import { launch } from './_browser.ts'

// Makes the pictures of the READMEs: npm run screenshots

const DIRECTORY = join(import.meta.dirname, '..', '..', 'lib', 'settings-page', 'screenshots')

const host = await startHost()
const browser = await launch()
for (const colorScheme of ['light', 'dark'] as const) {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 620 } })
  await page.goto(`${host.base}/deliveries`)
  await page.screenshot({ path: join(DIRECTORY, `${colorScheme}.png`) })
}
await browser.close()
await host.close()
