import { createShardedStore } from '../postgres/shards/sharded-store.ts'
import { createPostgresStore } from '../postgres/store.ts'
import type { NamedDatabase } from './database-url.ts'
import { describeFailure, Failure, type FailureReport, nameTarget, UsageError } from './failure.ts'
import type { Session } from './session.ts'

// DATABASE_URLS names the shards of an installation. A command on an organization goes to its shard; a command on a database is carried
// out on every shard, and a shard that is away does not stop the others.

/** Finds the database of an organization. */
export async function findDatabase(
  databases: readonly NamedDatabase[],
  organizationId: string,
): Promise<string> {
  const options = { prepare: false, sessions: false, maxConnections: 1 }
  const stores = databases.map(({ name, url }) => [name, createPostgresStore(url, options)] as const)
  const store = createShardedStore({ shards: Object.fromEntries(stores) })
  try {
    const { name } = await store.shardOf(organizationId)
    return databases.find((database) => database.name === name)?.url ?? ''
  } finally {
    await store.close({ timeoutMs: 0 })
  }
}

/**
 * Carries a command out on every shard, and prints the results under the names of the shards.
 *
 * @param isParallel false for a command that asks before it goes on
 * @param run carries the command out on one shard
 * @throws {@link Failure} with the failures of all shards; `UsageError` if none could understand the command line
 */
export async function runOnEach(
  session: Session,
  databases: readonly NamedDatabase[],
  isParallel: boolean,
  run: (session: Session) => Promise<void>,
): Promise<void> {
  const results: Record<string, { value: object; text: string }> = {}
  const failures: (FailureReport & { readonly name: string })[] = []

  async function runOn({ name, url }: NamedDatabase): Promise<void> {
    const ofShard: Session = {
      ...session,
      shard: { name, names: databases.map((database) => database.name).sort() },
      databaseUrl: () => url,
      explain: (error) => nameTarget(error, url),
      async print(value, toText) {
        results[name] = { value, text: toText() }
        return true
      },
      note: (line) => session.note(`${name}: ${line}`),
    }
    try {
      await run(ofShard)
    } catch (error) {
      const failure = describeFailure(ofShard.explain(error))
      failures.push({ name, ...failure })
      results[name] ??= { value: { error: failure.line }, text: `${failure.line}\n` }
    }
  }

  if (isParallel) await Promise.all(databases.map(runOn))
  else for (const database of databases) await runOn(database)
  const shown = databases.flatMap(({ name }) => (results[name] ? [[name, results[name]] as const] : []))
  if (shown.length > 0) {
    const shards = Object.fromEntries(shown.map(([name, { value }]) => [name, value]))
    await session.print({ shards }, () =>
      shown.map(([name, { text }]) => `Shard ${name}\n${text}`).join('\n'),
    )
  }
  if (failures.length === 0) return
  const text = failures.map(({ name, line }) => `shard ${name}: ${line}`).join('; ')
  throw failures.every(({ exitCode }) => exitCode === 2) ? new UsageError(text) : new Failure(text)
}
