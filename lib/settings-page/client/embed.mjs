// Writes the stylesheet and the script of the page, minified, as strings into assets.ts, because a host's bundler takes strings
// along but no files that a module reads.
//
//   node lib/settings-page/client/embed.mjs

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { transform } from 'esbuild'

const FILE = join(import.meta.dirname, '..', 'assets.ts')

async function shorten(name, loader) {
  const text = await readFile(join(import.meta.dirname, name), 'utf8')
  const { code } = await transform(text, {
    loader,
    minify: true,
    format: loader === 'js' ? 'esm' : undefined,
  })
  // esbuild leaves white space in the values of custom properties.
  return JSON.stringify(loader === 'css' ? code.trim().replace(/([,:]) /g, '$1') : code.trim())
}

await writeFile(
  FILE,
  `// Written by \`npm run client\` from client/settings.css and client/settings.js.

/** The stylesheet of the page. */
export const STYLESHEET: string = ${await shorten('settings.css', 'css')}

/** The module that makes the page better where JavaScript runs. */
export const SCRIPT: string = ${await shorten('settings.js', 'js')}
`,
)
