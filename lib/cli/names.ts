/** The name of a flag as it is typed: `--allow-http` for `allowHttp`. */
export function dashed(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}
