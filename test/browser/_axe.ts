import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core'), 'utf8')
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']

interface AxeReport {
  readonly violations: readonly {
    readonly id: string
    readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[]
  }[]
}

/**
 * Lists the findings of axe on the present state of a page. An evaluation of the browser's own tools loads axe in spite of the
 * page's policy.
 */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(AXE)
  const report = (await page.evaluate(
    (rules) =>
      (globalThis as unknown as { axe: { run(root: Document, options: object): unknown } }).axe.run(
        document,
        { runOnly: rules },
      ),
    RULES,
  )) as AxeReport
  return report.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`),
  )
}
