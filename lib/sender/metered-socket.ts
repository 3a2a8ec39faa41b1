import { connect, type Socket, type TcpNetConnectOpts } from 'node:net'
import { Duplex } from 'node:stream'
import type { ReadingTurns } from './reading-turns.ts'
import { INVALID_RESPONSE, SendError } from './send-error.ts'

/** A TCP connection of which no more is read, and no faster, than an answer to a webhook needs. */
export interface MeteredSocket {
  /** The connection itself: for its events and its end, not for its data. */
  readonly socket: Socket
  /** The connection's data, for HTTP or for TLS. Closes together with the socket. */
  readonly stream: Duplex
  /** Bounds the reading of answers from `stream`, or from the TLS over it. Called once, before the first reading. */
  meterAnswers(stream: Duplex): void
  /** An exchange begins: the process stays alive for it. */
  begin(): void
  /** A part of the answer was understood. */
  advance(): void
  /** The answer is complete: anything that arrives before the next exchange closes the connection. */
  end(): void
}

/**
 * How much may be received from the end of one answer to the end of the next one, in bytes: with the handshake of TLS
 * and all that TLS says for itself, as only the socket can count it.
 */
export const EXCHANGE_MAX_BYTES = 1024 * 1024

/**
 * How much HTTP may read without getting on, in bytes: the headers of an answer, of an interim one or at its end, a
 * reason phrase, the extension of a chunk, blank lines.
 */
export const STEP_MAX_BYTES = 16 * 1024

/**
 * How much is read at a time, in bytes: a whole answer of the usual size. Parsing stops between two pieces only, and an
 * answer that fails at each of its headers costs the more the larger the piece is.
 */
const PIECE_BYTES = 2048

/**
 * Opens a connection that bounds its reading below TLS and HTTP: both read some things without end in loops of their
 * own, without telling (one session ticket after the other, one blank line after the other).
 *
 * The first piece of an answer is handed on at once. All others, of all connections, take turns; until then nothing
 * more is read from the system, so that the other side has to wait.
 */
export function connectMetered(options: TcpNetConnectOpts, turns: ReadingTurns): MeteredSocket {
  let received = 0
  let withoutAdvance = 0
  let isFirst = true
  let isIdle = false
  /** Read, and its turn has not come. */
  let waiting: Buffer | undefined
  let top: Duplex | undefined

  const socket = connect({
    ...options,
    // TLS and HTTP decide when this side ends.
    allowHalfOpen: true,
    onread: { buffer: Buffer.allocUnsafe(PIECE_BYTES), callback: take },
  })
  const stream = createStream(socket, () => waiting !== undefined)

  function close(message: string): void {
    // An attempt that is given the connection at this moment opens another one, unless there is an error.
    const error = isIdle ? undefined : new SendError(INVALID_RESPONSE, message)
    ;(top ?? socket).destroy(error)
  }

  /** @returns whether to read on */
  function take(size: number, buffer: Uint8Array): boolean {
    received += size
    if (received > EXCHANGE_MAX_BYTES) {
      close(`an exchange of more than ${EXCHANGE_MAX_BYTES} bytes`)
      return false
    }
    const piece = Buffer.from(buffer.subarray(0, size))
    if (isFirst) {
      isFirst = false
      return stream.push(piece)
    }
    waiting = piece
    turns.wait(handOn)
    return false
  }

  function handOn(): void {
    const piece = waiting
    waiting = undefined
    if (piece && !stream.destroyed && stream.push(piece)) socket.resume()
  }

  return {
    socket,
    stream,
    meterAnswers(answers) {
      top = answers
      const { read } = answers
      // TLS decrypts up to 16 KiB at once.
      answers.read = (size) => {
        if (size === 0) return read.call(answers, 0)
        if (answers.destroyed) return null
        const piece = read.call(answers, Math.min(answers.readableLength, PIECE_BYTES) || undefined)
        if (piece === null) return null
        const isTooMuch = withoutAdvance >= STEP_MAX_BYTES
        withoutAdvance += piece.length
        if (!isIdle && !isTooMuch) return piece
        close(`more than ${STEP_MAX_BYTES} bytes without a part of an answer`)
        return null
      }
    },
    begin() {
      isIdle = false
      isFirst = true
      socket.ref()
    },
    advance() {
      withoutAdvance = 0
    },
    end() {
      isIdle = true
      received = 0
      withoutAdvance = 0
      socket.unref()
    },
  }
}

/** The data of a socket that gives it to a callback. */
function createStream(socket: Socket, isWaiting: () => boolean): Duplex {
  const stream = new Duplex({
    allowHalfOpen: true,
    read() {
      if (!isWaiting()) socket.resume()
    },
    final(done) {
      socket.end(done)
    },
    destroy(error, done) {
      if (socket.closed) return done(error)
      socket.once('close', () => done(error)).destroy()
    },
  })
  // Only reading is metered. A second queue of writes would cost a tenth of what an exchange does.
  stream.write = socket.write.bind(socket) as Duplex['write']
  stream.cork = () => socket.cork()
  stream.uncork = () => socket.uncork()
  // Reported to the dialler and to the reader. Without a listener an error that comes before them would end the process.
  stream.on('error', () => {})
  socket
    .on('end', () => stream.push(null))
    .on('error', (error) => stream.destroy(error))
    .on('close', () => stream.destroy())
  return stream
}
