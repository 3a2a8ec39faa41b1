import type { Page } from 'playwright-core'
import type { Seeded } from '../settings-page/_seed.ts'

// The pages that are no answer to a GET: refused forms, secrets, results, questions in dialogs, errors.

/** A page that comes of an act. */
export interface Answer {
  readonly name: string
  readonly path: string
  /** True for a page that only the script makes. Default false. */
  readonly needsScript?: boolean
  /** Acts on the page of the path. */
  act(page: Page): Promise<unknown>
}

const SEND = '.ba-form button:not([type=button])'

/** Presses a button or a link and waits for the next page. */
async function press(page: Page, selector: string, seen: string): Promise<void> {
  await page.click(selector)
  await page.waitForSelector(seen)
}

/** In an order in which no act removes the subject of a later act. */
export function answersOf(seeded: Seeded): readonly Answer[] {
  const { activeKey, revokedKey, endpoint, pendingDelivery, deliveredDelivery } = seeded
  const nothing = async (): Promise<void> => {}
  return [
    { name: 'an unknown path', path: '/nothing', act: nothing },
    { name: 'a key that cannot be rotated', path: `/keys/${revokedKey}/rotate`, act: nothing },
    { name: 'a filter without matches', path: '/deliveries?event=evt_unknown', act: nothing },
    {
      name: 'a refused key',
      path: '/keys/new',
      act: (page) => press(page, SEND, '[role=alert]'),
    },
    {
      name: 'a refused endpoint',
      path: '/endpoints/new',
      act: (page) => press(page, SEND, '[role=alert]'),
    },
    {
      name: 'a new key',
      path: '/keys/new',
      async act(page) {
        await page.fill('#name', 'By hand')
        await page.check('#scope')
        await page.check('#expiry')
        await press(page, SEND, '[data-secret]')
      },
    },
    {
      name: 'a new endpoint',
      path: '/endpoints/new',
      async act(page) {
        await page.fill('#url', 'https://hooks.example.com/new')
        await page.check('#wants')
        await press(page, SEND, '[data-secret]')
      },
    },
    {
      name: 'a rotation without overlap',
      path: `/keys/${activeKey}/rotate`,
      async act(page) {
        await page.check('#overlap')
        await press(page, SEND, '.ba-question')
      },
    },
    {
      name: 'a rotated secret',
      path: `/endpoints/${endpoint}/rotate`,
      act: (page) => press(page, SEND, '[data-secret]'),
    },
    {
      name: 'the types of event, filtered',
      path: '/endpoints/new',
      needsScript: true,
      async act(page) {
        await page.check('input[name=wants][value=some]')
        await page.fill('[data-find]', 'campaign')
        await page.click('[data-tick=yes]')
      },
    },
    {
      name: 'the result of a test',
      path: `/endpoints/${endpoint}`,
      act: (page) => press(page, SEND, '.ba-notice.ba-good'),
    },
    {
      name: 'a question in a dialog',
      path: `/endpoints/${endpoint}`,
      needsScript: true,
      act: (page) => press(page, 'a[href$="/delete"]', 'dialog[open]'),
    },
    {
      name: 'a delivery that cannot be cancelled',
      path: `/deliveries/${deliveredDelivery}/cancel`,
      act: nothing,
    },
    {
      name: 'a cancelled delivery',
      path: `/deliveries/${pendingDelivery}/cancel`,
      act: (page) => press(page, '.ba-question button', '.ba-notice'),
    },
    {
      name: 'a recovery',
      path: '/deliveries/recover',
      act: (page) => press(page, '.ba-question button', '.ba-notice'),
    },
  ]
}
