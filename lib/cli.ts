#!/usr/bin/env node
import { describeFailure } from './cli/failure.ts'
import { createInput } from './cli/input.ts'
import { main } from './cli/main.ts'

// Errors are handled where we write results. If stderr itself fails, there's no way to report that.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

process.on('uncaughtException', (error) => {
  process.stderr.write(`business-api-kit: ${describeFailure(error).line}\n`)
  process.exit(1)
})

process.exitCode = await main(process.argv.slice(2), {
  env: process.env,
  stdin: createInput(process.stdin),
  stdout: process.stdout,
  stderr: process.stderr,
  signals: process,
  exit: (code) => process.exit(code),
})

// Otherwise a connection to an unresponsive network could keep the process alive for minutes.
setTimeout(() => process.exit(), 1000).unref()
