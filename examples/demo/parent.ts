import { execFileSync } from 'node:child_process'
import type { Ending } from './ending.ts'

// npm passes a signal on to npm's shell, and to no other process. The shell ends without a signal to the demo: without this file
// `kill NPM` would leave the demo and its PostgreSQL behind for good.

/** Milliseconds between two checks. */
const EVERY_MS = 250
/** The exit code of a program ended by SIGTERM. */
const EXIT_CODE = 143
/** The process that takes over orphans. */
const INIT = 1

/** Ends the demo once npm or its shell is gone. Does nothing unless npm has started the demo. */
export function endWithNpm(ending: Ending): void {
  if (process.env.npm_lifecycle_event !== 'demo') return
  const shell = process.ppid
  const npm = parentOf(shell)
  const timer = setInterval(() => {
    if (shell !== INIT && process.ppid === shell && isAlive(npm)) return
    clearInterval(timer)
    // Ctrl-C ends the shell too, and has begun the ending by then.
    if (!ending.hasBegun) void ending.exit(EXIT_CODE)
  }, EVERY_MS).unref()
}

/** Undefined where the system cannot say: then the shell alone is watched. */
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
