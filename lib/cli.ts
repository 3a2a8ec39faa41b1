#!/usr/bin/env node
import { describeFailure } from './cli/failure.ts'
import { main } from './cli/main.ts'

// A reader that has seen enough, `| head`, is no failure.
process.stdout.on('error', () => process.exit())

process.on('uncaughtException', (error) => {
  process.stderr.write(`business-api: ${describeFailure(error).line}\n`)
  process.exit(1)
})

process.exitCode = await main(process.argv.slice(2), {
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  signals: process,
  exit: (code) => process.exit(code),
})

// Nothing is left to do; but a connection in a network that has fallen silent would keep the process for minutes.
setTimeout(() => process.exit(), 1000).unref()
