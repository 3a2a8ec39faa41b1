import { slotOf } from '../../access/slots.ts'
import { visible } from '../../base/visible-text.ts'
import { addShard, readPlace } from '../../postgres/shards/first-start.ts'
import { moveOrganization } from '../../postgres/shards/move.ts'
import { isMoving, type StoredPlace } from '../../postgres/shards/shard-place.ts'
import { type Command, defineCommand, type Group } from '../command.ts'
import { countOf } from '../confirmation.ts'
import { describeFailure, Failure, UsageError } from '../failure.ts'
import { required, text } from '../flags.ts'
import { formatCount } from '../progress.ts'
import type { Session } from '../session.ts'
import { requireShards, withShards } from '../shards.ts'

const to = required(text('NAME', 'the shard'))

async function moveTo(session: Session, name: string, isNew: boolean): Promise<void> {
  const { argument: organizationId } = session
  requireShards(session.shards)
  const progress = session.progress('Moving')
  const report = await moveOrganization(session.shards, organizationId, name, {
    isNew,
    onStep: ({ step, rows }) =>
      progress.show(rows === undefined ? step : `${step} ${formatCount(rows)} rows`),
  })
    .finally(progress.clear)
    // It may be about any shard, so the database of the organization isn't added.
    .catch((error) => {
      const { line, exitCode } = describeFailure(error)
      throw exitCode === 2 ? new UsageError(line) : new Failure(line)
    })
  for (const away of report.untold)
    session.note(`Shard ${away} is down, and learns it from the next process that starts`)
  await session.print(report, () => {
    const rows = countOf(report.copied, 'row', 'rows', false)
    return `${visible(organizationId)} is on shard ${report.to}: copied ${rows}, deleted ${formatCount(report.deleted)}\n`
  })
}

/** Moves an organization and everything that belongs to it to another shard. */
export const moveCommand: Command = defineCommand({
  name: 'move',
  summary: 'moves an organization and everything that belongs to it to another shard',
  about:
    'During the move its requests get 503: see the page on shards for how long. After an interruption, run the command again; before the copy is committed, moving it back to its previous shard undoes the move. Needs the user who migrated.',
  argument: 'ORGANIZATION',
  flags: { to },
  examples: {
    'from its shard to c': 'business-api-kit organizations move org_42 --to c',
  },
  run: ({ to: name }, session) => moveTo(session, name, false),
})

const assign: Command = defineCommand({
  name: 'assign',
  summary: 'assigns a new organization to a shard, before its first record',
  argument: 'ORGANIZATION',
  flags: { to },
  examples: {
    'the next customer': 'business-api-kit shards assign org_43 --to d',
  },
  run: ({ to: name }, session) => moveTo(session, name, true),
})

const add: Command = defineCommand({
  name: 'add',
  summary: 'adds a shard, empty until organizations are moved or assigned to it',
  about: 'Migrate its database, configure it in every process under its name, then add it.',
  argument: 'NAME',
  flags: {},
  examples: {
    'with d in DATABASE_URLS': 'business-api-kit shards add d',
  },
  async run(_, session) {
    await withShards(session, (store) => addShard(store.shards, session.argument))
    await session.print({ added: session.argument }, () => `Added shard ${session.argument}\n`)
  },
})

const list: Command = defineCommand({
  name: 'list',
  summary: 'lists the shards: their slots, and the organizations that were moved to them',
  flags: {},
  examples: {
    'where is what?': 'business-api-kit shards list',
  },
  async run(_, session) {
    const shards = await withShards(session, (store) =>
      Promise.all(store.shards.map(async (shard) => describe(shard.name, await readPlace(shard)))),
    )
    await session.print({ shards }, () =>
      shards
        .map(({ name, isAdded, slots, moved, moving }) => {
          if (!isAdded) return `${name}  the database is not this shard: see doctor\n`
          const going = moving === 0 ? '' : `, ${formatCount(moving)} on the way`
          return `${name}  ${formatCount(slots)} slots, ${countOf(moved, 'organization', 'organizations', false)} moved here${going}\n`
        })
        .join(''),
    )
  },
})

function describe(name: string, place: StoredPlace | null) {
  const { slots = [], moved = {} } = place ?? {}
  // An organization that has moved back to the shard of its slot still has an entry.
  const entries = Object.entries(moved).filter(
    ([id, [shard]]) => shard === name && slots[slotOf(id)] !== name,
  )
  const moving = entries.filter(([, entry]) => isMoving(entry)).length
  return {
    name,
    isAdded: place?.name === name,
    slots: slots.filter((each) => each === name).length,
    moved: entries.length - moving,
    moving,
  }
}

/** The shard commands. */
export const shards: Group = {
  name: 'shards',
  summary: 'the shards of an installation',
  commands: [list, add, assign],
}
