/** Reads `#rgb` or `#rrggbb`; null for any other text. */
export function parseColour(text: string): readonly [number, number, number] | null {
  if (!/^#([0-9a-f]{3}|[0-9a-f]{6})$/i.test(text)) return null
  const digits = text.length === 4 ? text.slice(1).replace(/./g, '$&$&') : text.slice(1)
  return [0, 2, 4].map((at) => Number.parseInt(digits.slice(at, at + 2), 16)) as [number, number, number]
}

/** Returns the contrast of two colours by WCAG 2.2: 1 to 21. */
export function contrastOf(one: string, other: string): number {
  const [darker = 0, lighter = 0] = [luminanceOf(one), luminanceOf(other)].sort((a, b) => a - b)
  return (lighter + 0.05) / (darker + 0.05)
}

function luminanceOf(colour: string): number {
  const [red, green, blue] = (parseColour(colour) ?? [0, 0, 0]).map((part) => {
    const share = part / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
