#!/usr/bin/env node
import { describeFailure } from './cli/failure.ts'
import { main } from './cli/main.ts'

// Whoever writes a result hears of the error too, and knows what it means; that of stderr can be told to nobody.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

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
