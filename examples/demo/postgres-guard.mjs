// Stops a PostgreSQL server and removes its directory once the process that started it is gone. This works after a
// normal exit, a signal, an uncaught error or kill -9. Standard input is a pipe from that process, which the operating
// system closes in all of these cases, so the process doesn't have to catch anything.
//
// This is plain JavaScript because it's run by `node` without a TypeScript loader.
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
  // A fast shutdown, which ends all sessions without waiting.
  send(pid, 'SIGINT')
  const deadline = Date.now() + STOP_TIMEOUT_MS
  while (serverPid() === pid && Date.now() < deadline) await sleep(20)
  if (serverPid() === pid) send(pid, 'SIGKILL')
}

// Reads the process id from the server's lock file, since the server may have been restarted. The file also tells us
// when the server has stopped. We can't check the process for that, because orphans remain zombies if process 1
// doesn't reap them.
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
    // The process is already gone.
  }
}
