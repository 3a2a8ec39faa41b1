import { createHash } from 'node:crypto'
import type { ApiReply } from '../http/message.ts'
import { SCRIPT, STYLESHEET } from './assets.ts'
import type { AssetPaths } from './layout.ts'
import { assetReply } from './reply.ts'

/** The two files of the page. They hold no data and need no session. */
export interface Assets {
  /** Returns the file of a path below the mount path. */
  find(path: string): ApiReply | undefined
  pathsBelow(basePath: string): AssetPaths
}

/** Creates the two files. @param themeCss CSS rules to append to the built-in stylesheet */
export function createAssets(themeCss: string): Assets {
  const css = STYLESHEET + themeCss
  const stylesheet = `/-/settings.${hashOf(css)}.css`
  const script = `/-/settings.${hashOf(SCRIPT)}.js`
  const files = new Map([
    [stylesheet, assetReply('text/css', css)],
    [script, assetReply('text/javascript', SCRIPT)],
  ])
  return {
    find: (path) => files.get(path),
    pathsBelow: (basePath) => ({ stylesheet: basePath + stylesheet, script: basePath + script }),
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}
