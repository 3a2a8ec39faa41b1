import { execFileSync } from 'node:child_process'
import type { Ending } from './ending.ts'

// npm only forwards signals to its shell, which exits without forwarding them to the demo. Without this file, `kill
// NPM` would leave the demo and its PostgreSQL running forever.

/** How often to check, in milliseconds. */
const EVERY_MS = 250
/** The exit code of a program killed by SIGTERM. */
const EXIT_CODE = 143
/** The process that adopts orphans. */
const INIT = 1

/** Ends the demo when npm or its shell is gone. Does nothing if the demo wasn't started by npm. */
export function endWithNpm(ending: Ending): void {
  if (process.env.npm_lifecycle_event !== 'demo') return
  const shell = process.ppid
  const npm = parentOf(shell)
  const timer = setInterval(() => {
    if (shell !== INIT && process.ppid === shell && isAlive(npm)) return
    clearInterval(timer)
    // Ctrl-C ends the shell as well, but then the demo is already ending.
    if (!ending.hasBegun) void ending.exit(EXIT_CODE)
  }, EVERY_MS).unref()
}

/** Returns `undefined` if the system can't tell. In that case we only watch the shell. */
function parentOf(pid: number): number | undefined {
  try {
    return Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)], { stdio: 'pipe' })) || undefined
  } catch {
    return undefined
  }
}

function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) return true
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
