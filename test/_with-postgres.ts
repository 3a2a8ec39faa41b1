// Runs a command with DATABASE_URL set: from the environment, else to a PostgreSQL server that is started for the command and
// stopped afterwards. The exit code is the command's.
//
//   tsx test/_with-postgres.ts COMMAND ARGUMENT…

import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { startPostgres } from '../examples/demo/postgres.ts'
import { TEST_SERVER_FLAGS } from './_database.ts'
import { isCompiled } from './_program.ts'

/** In a run of many files, a plan must not depend on whether the server has looked at a table meanwhile. */
const OWN_STATISTICS = isCompiled ? ['-c', 'autovacuum=off'] : []

const [command, ...args] = process.argv.slice(2)
if (command === undefined) {
  console.error('Usage: tsx test/_with-postgres.ts COMMAND ARGUMENT…')
  process.exit(2)
}

if (process.env.DATABASE_URL) {
  process.exitCode = await run(command, process.env.DATABASE_URL)
} else {
  const server = await startPostgres({ postgresFlags: [...TEST_SERVER_FLAGS, ...OWN_STATISTICS] })
  try {
    process.exitCode = await run(command, server.url)
  } finally {
    await server.stop()
  }
}

async function run(program: string, databaseUrl: string): Promise<number> {
  const child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, DATABASE_URL: databaseUrl } })
  // Passed on, and survived: the command may need the database for its own end.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    // As a shell reports a command that a signal has ended.
    child.on('exit', (code, signal) =>
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
    )
  })
}
