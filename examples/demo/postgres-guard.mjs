// Stops a PostgreSQL server and removes its directory once the process that started it is gone, however it went:
// normal end, signal, uncaught error or kill -9. Its standard input is a pipe from that process, which the
// operating system closes in every one of these cases; nothing has to be caught or hooked there.
//
// Plain JavaScript, because it is run by a bare `node` that has no TypeScript loader.
//
//   node postgres-guard.mjs DIRECTORY keep|remove

import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const STOP_TIMEOUT_MS = 10_000

const [directory, fate] = process.argv.slice(2)

process.stdin.resume().on('close', async () => {
  await stopServer()
  if (fate === 'remove') rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
})

async function stopServer() {
  const pid = serverPid()
  if (pid === undefined) return
  // PostgreSQL's fast shutdown: it ends the sessions instead of waiting for them.
  send(pid, 'SIGINT')
  const deadline = Date.now() + STOP_TIMEOUT_MS
  while (serverPid() === pid && Date.now() < deadline) await sleep(20)
  if (serverPid() === pid) send(pid, 'SIGKILL')
}

// From the server's lock file, not an argument: the server may have been started anew since. It also tells when the
// server has ended, which asking for the process does not: orphans stay as zombies where process 1 does not reap them.
function serverPid() {
  try {
    return Number.parseInt(readFileSync(join(directory, 'data', 'postmaster.pid'), 'utf8'), 10)
  } catch {
    return undefined
  }
}

function send(pid, signal) {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended in the meantime.
  }
}
