// Moves an organization, in a process that kills itself at a step. The arguments: the organization, the target, the step's name or number
// (0: none), and the connection strings by name, as JSON.

import { moveOrganization } from '../../lib/postgres/shards/move.ts'

const [organizationId = '', to = '', killedAt = '0', urls = '{}'] = process.argv.slice(2)
let steps = 0
await moveOrganization(new Map(Object.entries(JSON.parse(urls))), organizationId, to, {
  onStep({ step }) {
    if (++steps === Number(killedAt) || step === killedAt) process.kill(process.pid, 'SIGKILL')
  },
})
process.stdout.write(String(steps))
