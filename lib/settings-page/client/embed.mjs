// Writes the stylesheet and the script of the page as strings into assets.ts: a bundler of the host's then takes them along,
// which reading a file beside the module would not do.
//
//   node lib/settings-page/client/embed.mjs

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const FILE = join(import.meta.dirname, '..', 'assets.ts')

const read = (name) => readFile(join(import.meta.dirname, name), 'utf8')

/** Takes out the white space of CSS without comments, as the formatter leaves it. */
function shortenCss(text) {
  return text
    .replace(/\s+/g, ' ')
    .replace(/ ?([{};]) ?/g, '$1')
    .replace(/([:,]) /g, '$1')
    .replaceAll(';}', '}')
    .replace(/([ :,(])0\./g, '$1.')
    .replaceAll(' > ', '>')
    .trim()
}

/** Takes out indentation, empty lines and comments that are lines of their own. */
function shortenScript(text) {
  const lines = text.replace(/^ *\/\*\*.*?\*\/$/gms, '').split('\n')
  return lines
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('//'))
    .join('\n')
}

await writeFile(
  FILE,
  `// Written by \`npm run client\` from client/settings.css and client/settings.js.

/** The stylesheet of the page. */
export const STYLESHEET: string = ${JSON.stringify(shortenCss(await read('settings.css')))}

/** The module that makes the page better where JavaScript runs. */
export const SCRIPT: string = ${JSON.stringify(shortenScript(await read('settings.js')))}
`,
)
