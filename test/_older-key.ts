import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Makes a key as they were before keys carried a slot: 43 digits, and the CRC32 over all that precedes it, without a mark. */
export function makeOlderKey(): string {
  const secret = [...randomBytes(42)].map((byte) => BASE62.charAt(byte % 62)).join('')
  const unchecked = `bapi_live_0${secret}`
  let checksum = ''
  for (let rest = crc32(unchecked); checksum.length < 6; rest = Math.floor(rest / 62))
    checksum = BASE62.charAt(rest % 62) + checksum
  return unchecked + checksum
}
