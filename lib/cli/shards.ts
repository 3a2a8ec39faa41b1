import { createShardedStore, type ShardedStore } from '../postgres/shards/sharded-store.ts'
import { createPostgresStore, type PostgresStoreOptions } from '../postgres/store.ts'
import { describeFailure, Failure, nameTarget, UsageError } from './failure.ts'
import type { Session } from './session.ts'

// DATABASE_URLS lists an installation's shards. Commands about an organization run on its shard. Commands about a
// database run on every shard, even if another shard is down.

/** Opens a store that covers all shards. */
export function openShards(
  databases: ReadonlyMap<string, string>,
  options: PostgresStoreOptions,
): ShardedStore {
  const stores = [...databases].map(([name, url]) => [name, createPostgresStore(url, options)])
  return createShardedStore({ shards: Object.fromEntries(stores) })
}

/** @throws `UsageError` if DATABASE_URLS isn't set */
export function requireShards({ size }: Session['shards']): void {
  if (size === 0) throw new UsageError('Set DATABASE_URLS to the shards: a=postgres://…,b=postgres://…')
}

/** Opens a store that covers all shards for a few calls. */
export async function withShards<Result>(
  { shards }: Pick<Session, 'shards'>,
  work: (store: ShardedStore) => Promise<Result>,
): Promise<Result> {
  requireShards(shards)
  const store = openShards(shards, { prepare: false, sessions: false, maxConnections: 1 })
  return work(store).finally(() => store.close({ timeoutMs: 0 }))
}

/**
 * Runs a command on every shard and prints each result under the shard's name.
 *
 * @param isParallel `false` if the command asks for confirmation
 * @param run runs the command on one shard
 * @throws {@link Failure} listing all shards' failures, or `UsageError` if every shard rejected the command line
 */
export async function runOnEach(
  { shards, ...session }: Session,
  isParallel: boolean,
  run: (session: Session) => Promise<void>,
): Promise<void> {
  const results = new Map<string, { value: object; text: string }>()
  const failures = new Map<string, { line: string; exitCode: number }>()

  async function runOn([name, url]: readonly [string, string]): Promise<void> {
    const explain = (error: unknown): unknown => nameTarget(error, url)
    const print: Session['print'] = async (value, toText) =>
      Boolean(results.set(name, { value, text: toText() }))
    const note = (line: string): void => session.note(`${name}: ${line}`)
    await run({ ...session, shards, shard: name, databaseUrl: () => url, explain, print, note }).catch(
      (error) => {
        const { line, exitCode } = describeFailure(explain(error))
        failures.set(name, { line: `shard ${name}: ${line}`, exitCode })
        if (!results.has(name)) results.set(name, { value: { error: line }, text: `${line}\n` })
      },
    )
  }

  if (isParallel) await Promise.all([...shards].map(runOn))
  else for (const shard of shards) await runOn(shard)
  const shown = [...shards.keys()].map((name) => ({ name, ...results.get(name) }))
  await session.print({ shards: Object.fromEntries(shown.map(({ name, value }) => [name, value])) }, () =>
    shown.map(({ name, text = '' }) => `Shard ${name}\n${text}`).join('\n'),
  )
  const inOrder = [...shards.keys()].flatMap((name) => failures.get(name) ?? [])
  if (inOrder.length === 0) return
  const text = inOrder.map(({ line }) => line).join('; ')
  throw inOrder.every(({ exitCode }) => exitCode === 2) ? new UsageError(text) : new Failure(text)
}
