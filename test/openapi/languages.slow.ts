import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { findNextLink } from '../../lib/client/lists.ts'
import { named } from '../_service.ts'
import { request, seedClients, startPlatform } from '../api/_api.ts'

// Runs programs in other languages, each with its own standard tools. Languages that aren't installed are skipped.

const run = promisify(execFile)
const cwd = join(import.meta.dirname, 'languages')

const platform = await startPlatform()
after(() => platform.close())
const { id: organizationId, key } = await platform.organization()
await seedClients(platform.store, organizationId, 3)

/** Runs a program and returns its output, or `null` if the program isn't installed. */
async function runIfThere(file: string, args: readonly string[]): Promise<string | null> {
  try {
    return (await run(file, args, { cwd })).stdout
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

// --- Resolving the Link of a page ---

/**
 * Each program resolves a reference against a URL with all resolvers of its standard library, and prints one
 * result per line.
 */
const RESOLVERS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  Go: ['go', 'run', 'resolve.go'],
  Java: ['java', 'Resolve.java'],
  Python: ['python3', '-c', 'import sys, urllib.parse; print(urllib.parse.urljoin(*sys.argv[1:]))'],
  Ruby: ['ruby', '-ruri', '-e', 'puts URI.join(*ARGV)'],
}

describe('Link', () => {
  for (const [language, [file, ...args]] of Object.entries(RESOLVERS)) {
    for (const baseUrl of [undefined, 'https://app.example/platform']) {
      for (const query of ['?limit=2', '?limit=2&updatedSince=1970-01-01T00:00:00%2B00:00']) {
        const name = `${language} resolves the Link of ${query} ${baseUrl ? 'with' : 'without'} baseUrl to the next page`
        test(name, async (t) => {
          const api = platform.apiWith({}, named(platform.store, { baseUrl }))
          const link = findNextLink(
            (await request(api, `/api/v1/clients${query}`, { key })).headers.get('link'),
          )
          assert.ok(link !== null)
          const url = `https://app.example/platform/api/v1/clients${query}`
          const resolved = await runIfThere(file, [...args, url, link])
          if (resolved === null) return t.skip(`${file} isn't installed`)
          for (const line of resolved.trim().split('\n')) {
            assert.equal(line, new URL(link, url).href)
            assert.match(line, /^https:\/\/app\.example\/platform\/api\/v1\/clients\?limit=2&/)
          }
        })
      }
    }
  }
})
