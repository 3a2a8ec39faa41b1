import { join } from 'node:path'
import type { Ready } from '../../examples/demo/print.ts'
import { endProgram, startSource } from '../examples/_program.ts'
import { launch } from './_browser.ts'

// Makes the pictures of the READMEs: npm run screenshots. The overview of the demo, light and dark.

const DIRECTORY = join(import.meta.dirname, '..', '..', 'lib', 'settings-page', 'screenshots')

const demo = startSource(['examples/demo/main.ts', '--json'], { DATABASE_URL: '' })
const [line] = await demo.prints(/^.*\n/)
const { baseUrl, organizations } = JSON.parse(line) as Ready
// Until a key is used, the overview shows the first steps.
const headers = { Authorization: `Bearer ${organizations[0]?.keys.all}` }
await fetch(`${baseUrl}/api/v1/clients`, { headers })
const browser = await launch()
for (const colorScheme of ['light', 'dark'] as const) {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 860 } })
  await page.goto(`${baseUrl}/settings`)
  while (await page.getByText('Get started').isVisible()) await page.reload()
  await page.screenshot({ path: join(DIRECTORY, `${colorScheme}.png`) })
}
await browser.close()
await endProgram(demo)
