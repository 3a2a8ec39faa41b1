// Minifies the stylesheet and script and writes them to assets.ts as strings, because bundlers include strings but not files that a
// module reads at run time.
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
  // esbuild keeps white space in custom properties.
  return JSON.stringify(loader === 'css' ? code.trim().replace(/([,:]) /g, '$1') : code.trim())
}

await writeFile(
  FILE,
  `// Written by \`npm run client\` from client/settings.css and client/settings.js.

/** The stylesheet of the page. */
export const STYLESHEET: string = ${await shorten('settings.css', 'css')}

/** The script that enhances the page. */
export const SCRIPT: string = ${await shorten('settings.js', 'js')}
`,
)
