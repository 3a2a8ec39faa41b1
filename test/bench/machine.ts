import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cpus, loadavg, release, totalmem, type } from 'node:os'

/** Describes the machine of a run, with the load of others at the start. */
export function describeMachine(): string {
  const model = cpus()[0]?.model.trim() || 'unknown processor'
  const gigabytes = Math.round(totalmem() / 2 ** 30)
  const load = loadavg()[0]?.toFixed(1)
  return (
    `${cpus().length} × ${model}, ${gigabytes} GB, ${type()} ${release()}, Node.js ${process.versions.node}, ` +
    `load average ${load} at the start`
  )
}

/** Processor times in seconds, of processes and of the whole machine, to be compared with a later reading. */
export interface Cpu {
  readonly at: number
  readonly ofProcesses: number
  readonly busy: number
}

/** Reads processor times; NaN on systems without `/proc`. */
export function readCpu(pids: readonly number[]): Cpu {
  const [, user = NaN, nice = NaN, system = NaN, , , irq = NaN, softirq = NaN] =
    readProc('/proc/stat').split('\n')[0]?.split(/\s+/).map(Number) ?? []
  return {
    at: performance.now() / 1000,
    ofProcesses: pids.reduce((sum, pid) => sum + readProcessSeconds(pid), 0),
    busy: (user + nice + system + irq + softirq) / TICKS,
  }
}

/** Compares two readings: processor seconds for each second. */
export function coresSince(
  before: Cpu,
  after: Cpu,
): { readonly serverCores: number; readonly allCores: number } {
  const seconds = after.at - before.at
  return {
    serverCores: (after.ofProcesses - before.ofProcesses) / seconds,
    allCores: (after.busy - before.busy) / seconds,
  }
}

/** Reads the processor seconds of a process and its children, ended children included; NaN on systems without `/proc`. */
export function readTreeSeconds(pid: number): number {
  const children = readProc(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean)
  // A child that ends before it is read counts with the parent, which is read last.
  const seconds = children.map((child) => readProcessSeconds(Number(child)) || 0)
  return seconds.reduce((sum, each) => sum + each, 0) + readProcessSeconds(pid, 4)
}

/** The resident memory of processes together, in megabytes. */
export function readRssMb(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readProc(`/proc/${pid}/status`))?.[1]
    return sum + Number(kilobytes ?? NaN) / 1024
  }, 0)
}

/** Returns whether a program is on the path. */
export function hasProgram(name: string): boolean {
  try {
    execFileSync(name, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** The unit of `/proc`, the same on every Linux machine of today. */
const TICKS = 100

/** @param fields 2: user and system time; 4: also those of children that have ended */
function readProcessSeconds(pid: number, fields: 2 | 4 = 2): number {
  const [, rest = ''] = readProc(`/proc/${pid}/stat`).split(') ')
  const times = rest.split(' ').slice(11, 11 + fields)
  return times.length < fields ? NaN : times.reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS
}

function readProc(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
