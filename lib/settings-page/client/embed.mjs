// Writes the stylesheet and the script of the page as strings into assets.ts, because a host's bundler takes strings along
// but no files that a module reads.
//
//   node lib/settings-page/client/embed.mjs

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const FILE = join(import.meta.dirname, '..', 'assets.ts')

const read = (name) => readFile(join(import.meta.dirname, name), 'utf8')

/** Removes the formatter's white space from CSS without comments. */
function shortenCss(text) {
  return text
    .replace(/\s+/g, ' ')
    .replace(/ ?([{};]) ?/g, '$1')
    .replace(/([:,]) /g, '$1')
    .replaceAll(';}', '}')
    .replace(/([ :,(])0\./g, '$1.')
    .replace(/ ([<>]=?) /g, '$1')
    .trim()
}

/** Removes indentation, empty lines, and lines that hold only a comment. */
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
