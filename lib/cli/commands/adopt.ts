import { type Command, defineCommand } from '../command.ts'
import { installation } from '../common-flags.ts'
import { CONFIRMATION_FLAGS, confirm } from '../confirmation.ts'
import { ofAdopting } from '../consequences.ts'
import { readInstallation, withStore } from '../database.ts'
import { UsageError } from '../failure.ts'

/** Claims a restored, copied or upgraded database for this installation. */
export const adopt: Command = defineCommand({
  name: 'adopt',
  summary: 'assigns the database to this installation after a restore, copy or upgrade',
  about:
    'A delivery loop waits on a database that belongs to another installation. On a copy, first run business-api-kit deliveries cancel --pending, or the loop sends to customers what production sends too. Waiting loops continue within ten seconds.',
  onShards: 'in turn',
  flags: { installation, ...CONFIRMATION_FLAGS },
  examples: {
    'a copy for staging': 'business-api-kit adopt --installation staging',
    'production without a name, after pg_upgrade or a restore': 'business-api-kit adopt',
  },
  async run({ installation: name = null, ...asking }, session) {
    const adopted = await withStore(session, async (store) => {
      const before = await readInstallation(session)
      if (name === null && before !== null && before.name !== null) {
        throw new UsageError(
          `Missing --installation NAME, because the database belongs to the installation '${before.name}'; pass it, or set BUSINESS_API_INSTALLATION`,
        )
      }
      const goesOn = await confirm(session, asking, async () =>
        ofAdopting(name, before, await store.deliveries.countQueue(null)),
      )
      return goesOn ? store.installation.adopt(name) : null
    })
    if (adopted === null) return
    const whose = adopted.name === null ? 'is known' : `belongs to the installation '${adopted.name}'`
    await session.print(adopted, () => `The database ${whose} from now on\n`)
  },
})
