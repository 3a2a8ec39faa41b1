import { visible } from '../../base/visible-text.ts'
import { type Command, defineCommand, type Group } from '../command.ts'
import { organization } from '../common-flags.ts'
import { countOf } from '../confirmation.ts'
import { withSettings } from '../database.ts'
import { Failure, UsageError } from '../failure.ts'
import { text, toggle } from '../flags.ts'
import { formatCount } from '../progress.ts'
import type { Session } from '../session.ts'
import { moveCommand } from './shards.ts'

const deleteOrganization: Command = defineCommand({
  name: 'delete',
  summary: 'permanently deletes an organization and everything that belongs to it',
  about:
    "Deletes records, events, deliveries, idempotency entries, document numbers, the audit log, endpoints and API keys. Keys are revoked and endpoints removed first. Works in small parts: after an interruption, run the command again. It can't reach what subscribers have received, or backups. On a terminal it asks for the id again.",
  argument: 'ORGANIZATION',
  flags: {
    confirm: text('ORGANIZATION', "the organization's id again; required without a terminal"),
    dryRun: toggle('only show what would happen'),
  },
  examples: {
    'asks first': 'business-api-kit organizations delete org_42',
    'from a script': 'business-api-kit organizations delete org_42 --confirm org_42',
  },
  async run({ confirm, dryRun }, session) {
    const { argument: organizationId } = session
    const counts = await withSettings(session, async ({ apiKeys, endpoints, organizations }) => {
      const keys = (await apiKeys.list(organizationId)).length
      const receivers = (await endpoints.list(organizationId)).length
      const sentence = `Deletes ${organizationId} for good: all records, events and deliveries, the audit, ${countOf(keys, 'API key')} and ${countOf(receivers, 'endpoint')}.`
      if (dryRun) {
        await session.print(
          { dryRun, keys, endpoints: receivers },
          () => `${visible(sentence)} Nothing was changed.\n`,
        )
        return null
      }
      await askForId(session, 'organization', sentence, confirm)
      const progress = session.progress('Deleting')
      const onProgress = (deleted: number): void => progress.show(`${formatCount(deleted)} rows`)
      return organizations.delete(organizationId, { onProgress }).finally(progress.clear)
    })
    if (counts === null) return
    const sum = Object.values(counts).reduce((all, count) => all + count, 0)
    await session.print({ deleted: counts }, () => {
      if (sum === 0) return `Nothing to delete: check that ${visible(organizationId)} is the right id\n`
      return `Deleted ${countOf(sum, 'row', 'rows', false)}\n`
    })
  },
})

const forget: Command = defineCommand({
  name: 'forget',
  summary: "permanently erases a business's personal data",
  about:
    "The business is then named 'Deleted', without its other values, also in stored events and replies. Nothing is published. The work is done in small parts; after an interruption the same command does the rest. The result says what is beyond the command. On a terminal the command asks for the id once more.",
  argument: 'BUSINESS',
  flags: {
    organization,
    proposals: text('IDS', 'proposals whose signatory is removed too, separated by commas'),
    confirm: text('BUSINESS', "the business's id again; required without a terminal"),
  },
  examples: {
    'asks first': 'business-api-kit organizations forget biz_… -o org_42',
    'from a script, with two signatures':
      'business-api-kit organizations forget biz_… -o org_42 --proposals prop_…,prop_… --confirm biz_…',
  },
  async run({ organization: owner, proposals, confirm }, session) {
    const { argument: businessId } = session
    const proposalIds = proposals?.split(',').map((id) => id.trim()) ?? []
    const sentence = `Removes the personal values of ${businessId} for good, and the signatories of ${countOf(proposalIds.length, 'proposal')}.`
    await askForId(session, 'business', sentence, confirm)
    const { changed, left } = await withSettings(session, ({ organizations }) => {
      const progress = session.progress('Removing')
      const onProgress = (rows: number): void => progress.show(`${formatCount(rows)} rows`)
      return organizations
        .forgetBusiness(owner, businessId, { proposalIds, onProgress })
        .finally(progress.clear)
    })
    const sum = Object.values(changed).reduce((all, count) => all + count, 0)
    await session.print({ changed, left }, () => {
      return `Changed ${countOf(sum, 'row', 'rows', false)}. Beyond the command:\n${left.map((line) => `- ${line}\n`).join('')}`
    })
  },
})

/** @throws {@link Failure} unless the id is entered, `UsageError` if there's no terminal to ask on */
async function askForId(
  { argument, terminal: { stdin, stderr } }: Session,
  kind: 'organization' | 'business',
  sentence: string,
  confirm: string | undefined,
): Promise<void> {
  if (confirm === argument) return
  if (confirm !== undefined)
    throw new UsageError(`Nothing was changed: --confirm is not the id of the ${kind}`)
  if (!stdin.isTTY || !stderr.isTTY) {
    throw new UsageError(
      `Nothing was done because there is no terminal to confirm in: ${sentence} Pass --confirm with the id${kind === 'organization' ? ', or --dry-run to change nothing' : ''}`,
    )
  }
  stderr.write(`${visible(sentence)}\nType the id of the ${kind} to go on: `)
  const answer = await stdin.readLine()
  if (answer === null) stderr.write('\n')
  if (answer?.trim() !== argument) throw new Failure('Nothing was changed: the id was not repeated')
}

/** Commands that affect an entire organization. */
export const organizations: Group = {
  name: 'organizations',
  summary: 'organizations as a whole',
  commands: [deleteOrganization, forget, moveCommand],
}
