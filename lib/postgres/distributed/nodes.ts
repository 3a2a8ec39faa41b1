import { storeUnavailable } from '../../base/errors.ts'
import type { BuildStatement, Database, TextRow } from '../connection/database.ts'
import { isConnectionFailure } from '../connection/driver-faults.ts'
import type { Share } from '../connection/turns.ts'

// The state of each node of a cluster, for the delivery loops. A silent node must not hold up work on other nodes, and a locked row or
// a slow statement must not make a node silent: so a late answer is followed by a ping, and the ping decides.

/** A node of the cluster, by an organization on the node: the coordinator sends a statement to the organization's node. */
export interface NodePlace {
  readonly node: string
  readonly organizationId: string
}

/** Options of a statement to a node. */
export interface SendOptions {
  /** The share of the connections that the statement takes. Default null: the loops' own */
  readonly share?: Share | null
  /** Milliseconds for the answer. Default and least: 1000, or 5000 while the node is slow */
  readonly answerMs?: number | undefined
  /** True for a statement that must not be sent again after the loss of the answer. Default false */
  readonly isOnce?: boolean | undefined
}

/** Sends the statements of the loops to the nodes of a cluster. */
export interface Nodes {
  /**
   * Sends a statement to a node, at most three at a time. A silent node gets a ping and no statement: until the ping is answered, each
   * call fails at once.
   *
   * @throws `BusinessApiError` with code `store_unavailable` if the node is silent, cannot be reached, or does not answer in time, and
   *   if the statements before have not ended within five seconds
   */
  send(place: NodePlace, build: BuildStatement, options?: SendOptions): Promise<TextRow>
  /** True if the node has not answered a ping in time, and no later ping. */
  isSilent(node: string): boolean
}

/** Milliseconds for an answer of a node. A statement of the loops takes a few milliseconds. */
export const PATIENCE_MS = 1000

/** Milliseconds for an answer of a slow node, after a late answer to a ping: as for any statement, so that the node's work gets done. */
export const SLOW_PATIENCE_MS = 5000

/** Milliseconds without an answer to a statement, after which the node gets a ping. */
const PING_AFTER_MS = 500

/** Greatest number of statements under way on a node: the loops together have half of the connections, five by default. */
const AT_ONCE = 3

/** Milliseconds for which a statement waits for a turn at the node. */
const TURN_MS = 5000

interface Node {
  /** The share of the node's pings: a ping must not wait behind the statements in question. */
  readonly pings: symbol
  underWay: number
  /** Statements that wait for a turn. */
  readonly waiting: Set<Waiter>
  /** The callers of statements under way: all give up when the node falls silent. */
  readonly callers: Set<Caller>
  patienceMs: number
  isSilent: boolean
  isPinged: boolean
}

interface Caller {
  reject(error: unknown): void
}

interface Waiter extends Caller {
  resolve(): void
}

/** Creates the nodes. No state is known at first. */
export function createNodes(database: Database): Nodes {
  const nodes = new Map<string, Node>()

  function nodeOf(name: string): Node {
    const known = nodes.get(name)
    if (known) return known
    const node = {
      pings: Symbol(name),
      underWay: 0,
      waiting: new Set<Waiter>(),
      callers: new Set<Caller>(),
      patienceMs: PATIENCE_MS,
      isSilent: false,
      isPinged: false,
    }
    nodes.set(name, node)
    return node
  }

  function fallSilent(node: Node): void {
    node.isSilent = true
    rejectAll(node.waiting, silent())
    rejectAll(node.callers, silent())
  }

  /** Sends the node a ping, by an organization of the node: a statement that reads no table and waits for no lock. */
  async function ping(node: Node, organizationId: string): Promise<void> {
    if (node.isPinged) return
    node.isPinged = true
    let sentAt: number | undefined
    let silence: NodeJS.Timeout | undefined
    let isOver = false
    // After the events of the network: a process that stood still has not yet read an answer that has arrived.
    const judge = (): void => void setImmediate(() => isOver || fallSilent(node))
    try {
      await database.rowFor(
        node.pings,
        (sql, answerTag) => {
          sentAt ??= performance.now()
          silence ??= setTimeout(judge, node.patienceMs - PING_AFTER_MS)
          return sql`
            select answer, ${answerTag}
            from business_api.ask_shard(${organizationId}::text, 'select true::text', '[]') as answer`
        },
        { answerMs: SLOW_PATIENCE_MS },
      )
      node.isSilent = false
      if (msSince(sentAt) >= PING_AFTER_MS) node.patienceMs = SLOW_PATIENCE_MS
    } catch (error) {
      // A node that refuses at once is not silent, because no caller waits. A ping that was not sent, or had no time left,
      // says nothing.
      if (sentAt === undefined) return
      if (msSince(sentAt) >= PING_AFTER_MS) fallSilent(node)
      else if (isFailureOfConnection(error)) node.isSilent = false
    } finally {
      isOver = true
      clearTimeout(silence)
      node.isPinged = false
    }
  }

  /** Waits for a turn, but not without end: a call for many organizations must not hang at a slow node. */
  async function takeTurn(node: Node): Promise<void> {
    if (node.underWay < AT_ONCE) {
      node.underWay++
      return
    }
    let late: NodeJS.Timeout | undefined
    try {
      await new Promise<void>((resolve, reject) => {
        const waiter = { resolve, reject }
        node.waiting.add(waiter)
        late = setTimeout(() => {
          if (node.waiting.delete(waiter)) reject(busy())
        }, TURN_MS)
      })
    } finally {
      clearTimeout(late)
    }
  }

  /** Gives the turn to the statement that has waited longest. */
  function endTurn(node: Node): void {
    const [next] = node.waiting
    if (next === undefined) node.underWay--
    else if (node.waiting.delete(next)) next.resolve()
  }

  async function sendInTurn(
    node: Node,
    organizationId: string,
    build: BuildStatement,
    { share = null, answerMs = 0, isOnce }: SendOptions,
    caller: Caller,
  ): Promise<TextRow> {
    let sentAt: number | undefined
    let late: NodeJS.Timeout | undefined
    try {
      const row = await database.rowFor(
        share,
        (sql, answerTag) => {
          sentAt = performance.now()
          clearTimeout(late)
          late = setTimeout(() => ping(node, organizationId), PING_AFTER_MS)
          const statement = build(sql, answerTag)
          // Not before `build`: a caller that gets an error must know whether the statement was sent.
          if (node.isSilent) caller.reject(silent())
          else node.callers.add(caller)
          return statement
        },
        { answerMs: Math.max(answerMs, node.patienceMs), isOnce },
      )
      if (msSince(sentAt) < PING_AFTER_MS) node.patienceMs = PATIENCE_MS
      return row
    } catch (error) {
      // The waiting statements would fail in the same way, each after the other.
      if (isFailureOfConnection(error)) rejectAll(node.waiting, error)
      throw error
    } finally {
      clearTimeout(late)
      node.callers.delete(caller)
      endTurn(node)
    }
  }

  return {
    async send({ node: name, organizationId }, build, options = {}) {
      const node = nodeOf(name)
      if (node.isSilent) {
        void ping(node, organizationId)
        throw silent()
      }
      await takeTurn(node)
      if (node.isSilent) {
        endTurn(node)
        throw silent()
      }
      // The silence of the node may reject the caller; the statement keeps the turn until the end of the time.
      return new Promise((resolve, reject) => {
        sendInTurn(node, organizationId, build, options, { reject }).then(resolve, reject)
      })
    },
    isSilent: (name) => nodeOf(name).isSilent,
  }
}

function rejectAll(callers: Set<Caller>, error: unknown): void {
  for (const { reject } of callers) reject(error)
  callers.clear()
}

function isFailureOfConnection(error: unknown): boolean {
  return error instanceof Error && isConnectionFailure(error.cause)
}

/** @returns milliseconds; infinity if there was no such time */
function msSince(time = Number.NEGATIVE_INFINITY): number {
  return performance.now() - time
}

function busy(): Error {
  return storeUnavailable(
    `Cannot reach a node of the cluster: ${AT_ONCE} other statements have not ended in time`,
  )
}

function silent(): Error {
  return storeUnavailable(
    'Cannot reach a node of the cluster: it was sent a ping and has not answered in time',
  )
}
