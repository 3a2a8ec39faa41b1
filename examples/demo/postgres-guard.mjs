// Stops a PostgreSQL server and removes its directory once the starting process is gone, after a normal end, signal,
// uncaught error or kill -9. The standard input is a pipe from that process, and the operating system closes the pipe
// in all these cases; the process need not catch or hook anything.
//
// Plain JavaScript, because a bare `node` without a TypeScript loader runs this file.
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
  // PostgreSQL's fast shutdown, which ends all sessions without waiting.
  send(pid, 'SIGINT')
  const deadline = Date.now() + STOP_TIMEOUT_MS
  while (serverPid() === pid && Date.now() < deadline) await sleep(20)
  if (serverPid() === pid) send(pid, 'SIGKILL')
}

// Reads the process id from the server's lock file, not from an argument, because the server may have been started
// anew. The file also shows the server's end; a check of the process does not, because orphans stay as zombies where
// process 1 does not reap them.
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
    // The process has ended meanwhile.
  }
}
