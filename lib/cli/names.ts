/** Returns a flag as typed, for example `--allow-http` for `allowHttp`. */
export function dashed(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}
