/**
 * Loads undici on demand, because most hosts never need it. This must be a plain `import()` with a literal name.
 * Otherwise, bundlers and file tracers (webpack, Turbopack, esbuild, the standalone output of Next.js) leave it out.
 *
 * @throws `Error` if undici isn't installed
 */
export async function loadUndici(): Promise<typeof import('undici')> {
  try {
    return await import('undici')
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(
      `undici cannot be loaded: ${reason}: install the dependencies of business-api-kit; ` +
        'a bundle must include undici, or exclude business-api-kit as a whole',
      { cause },
    )
  }
}
