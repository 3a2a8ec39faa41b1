import { parseArgs } from 'node:util'

/** The options of the demo's command line. */
export interface Wishes {
  /** The port, or 0 for any free one. */
  readonly port: number
  /** The number of PostgreSQL servers. */
  readonly shards: number
  /** Print a line of JSON to stdout instead of text. */
  readonly json: boolean
  readonly help: boolean
}

export const HELP = `Serves the business API with believable data, on a real PostgreSQL.

  npm run demo -- [options]

  --port N   serve on port N of 127.0.0.1; 0, the default, takes a free one
  --shards N spread the organizations over N PostgreSQL servers, 2 to 9, with one store over them
  --json     when ready, print one line of JSON on stdout and nothing else there (use npm run -s):
             { baseUrl, databaseUrl, pid, organizations: [{ id, name, keys: { all, readOnly, revoked, expired } }, ...],
               env: { BUSINESS_API_SECRET_KEYS } }; with --shards, env has DATABASE_URLS too
  --help     print this

DATABASE_URL, when set, names the database to use; otherwise a PostgreSQL is started for the demo and removed after it.
Events are delivered to a subscriber that the demo starts; the keys that seal its secrets are those of
BUSINESS_API_SECRET_KEYS (32 bytes in base64 each, with commas between them), or one made for this run.
Each run makes two new organizations, so a database of yours keeps those of earlier runs, and their keys stay valid.
Ctrl-C ends everything, with exit code 130; a second one does not wait for requests under way. SIGTERM, to the process
pid or to npm, ends everything too, and so does the end of npm.
`

/**
 * Parses the command line.
 *
 * @throws Error naming the invalid argument
 */
export function readCommandLine(args: readonly string[]): Wishes {
  const { values } = parseArgs({
    args: [...args],
    options: {
      port: { type: 'string' },
      shards: { type: 'string' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  return {
    port: readPort(values.port),
    shards: readShards(values.shards),
    json: values.json ?? false,
    help: values.help ?? false,
  }
}

function readShards(text = '1'): number {
  if (/^[1-9]$/.test(text)) return Number(text)
  throw new RangeError(`--shards ${text} must be a whole number from 1 to 9`)
}

function readPort(text = '0'): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535) {
    throw new RangeError(`Cannot use --port ${text} because a port is a whole number from 0 to 65535`)
  }
  return Number(text)
}
