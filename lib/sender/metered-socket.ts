import { connect, type Socket, type TcpNetConnectOpts } from 'node:net'
import { Duplex } from 'node:stream'
import type { ReadingTurns } from './reading-turns.ts'
import { createHeadReader } from './response-head.ts'
import { INVALID_RESPONSE, SendError, toSendError } from './send-error.ts'

/** A TCP connection with a limit on the amount and the speed of reading: as much as a response to a webhook needs. */
export interface MeteredSocket {
  /** The connection itself, for events and for closing, never for data. */
  readonly socket: Socket
  /** The connection's data, for HTTP or for TLS. Closes together with the socket. */
  readonly stream: Duplex
  /** The first error while responses are read. undici tells only that the other side closed, and not the alert of TLS before. */
  readonly fault: Error | undefined
  /**
   * Bounds the reading of responses from `stream`, or from the TLS stream above it. Called once, before the first
   * reading.
   */
  meterAnswers(stream: Duplex): void
  /**
   * Begins an exchange: from now on the connection keeps the process alive.
   *
   * @param onFirstByte called when bytes of the response have arrived
   */
  begin(onFirstByte: () => void): void
  /** A part of the response was understood. */
  advance(): void
  /** The response is complete: anything that arrives before the next exchange closes the connection. */
  end(): void
}

/**
 * Maximum number of bytes received from one response to the next, counted at the socket: TLS messages included.
 */
export const EXCHANGE_MAX_BYTES = 1024 * 1024

/**
 * Maximum number of bytes that HTTP may read without completing a part of a response: headers, interim headers, trailers, a reason
 * phrase, a chunk extension, blank lines.
 */
export const STEP_MAX_BYTES = 16 * 1024

/**
 * The bytes read at a time: a whole response of the usual size. Parsing stops between two pieces only, so a response with
 * an error in every header costs more with a larger piece.
 */
const PIECE_BYTES = 2048

const NO_BYTES = Buffer.alloc(0)

/**
 * Opens a connection that bounds its reading below TLS and HTTP: both read without end and without a callback in loops
 * of their own, such as session ticket after session ticket, or blank line after blank line.
 *
 * The first piece of a response is handed on at once. All later pieces, of all connections, take turns; a connection
 * reads nothing from the system before its turn, so the other side has to wait.
 *
 * @param turns the queue of all connections' pieces
 */
export function connectMetered(options: TcpNetConnectOpts, turns: ReadingTurns): MeteredSocket {
  let received = 0
  let withoutAdvance = 0
  let isFirst = true
  let isIdle = false
  /** The piece that was read and waits for its turn. */
  let waiting: Buffer | undefined
  let top: Duplex | undefined
  let fault: Error | undefined
  let reportFirstByte = (): void => {}
  const heads = createHeadReader(advance)

  const socket = connect({
    ...options,
    // TLS and HTTP decide when this side ends.
    allowHalfOpen: true,
    onread: { buffer: Buffer.allocUnsafe(PIECE_BYTES), callback: take },
  })
  const stream = createStream(socket, () => waiting !== undefined)

  function advance(): void {
    withoutAdvance = 0
  }

  function fail(error: SendError): void {
    // Without an error, an attempt that takes the idle connection at this moment opens another connection.
    ;(top ?? socket).destroy(isIdle ? undefined : error)
  }

  /** Reads a piece of a response, at most as much as may come without an advance. */
  function readPiece(answers: Duplex, read: Duplex['read']): Buffer | null {
    // TLS decrypts up to 16 KiB at once.
    const piece = read.call(answers, Math.min(answers.readableLength, PIECE_BYTES) || undefined)
    if (piece === null) return null
    const isTooMuch = withoutAdvance >= STEP_MAX_BYTES
    withoutAdvance += piece.length
    if (isIdle || isTooMuch) {
      fail(new SendError(INVALID_RESPONSE, `more than ${STEP_MAX_BYTES} bytes without a part of a response`))
      return null
    }
    reportFirstByte()
    try {
      return heads.read(piece)
    } catch (error) {
      fail(toSendError(error, INVALID_RESPONSE))
      return null
    }
  }

  /** @returns true to read on */
  function take(size: number, buffer: Uint8Array): boolean {
    received += size
    if (received > EXCHANGE_MAX_BYTES) {
      fail(new SendError(INVALID_RESPONSE, `an exchange of more than ${EXCHANGE_MAX_BYTES} bytes`))
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
    get fault() {
      return fault
    },
    meterAnswers(answers) {
      top = answers
      answers.once('error', (error) => {
        fault = error
      })
      const { read } = answers
      answers.read = (size) => {
        if (size === 0) return read.call(answers, 0)
        let piece: Buffer | null = NO_BYTES
        while (piece?.length === 0) piece = answers.destroyed ? null : readPiece(answers, read)
        return piece
      }
    },
    begin(onFirstByte) {
      reportFirstByte = onFirstByte
      isIdle = false
      isFirst = true
      socket.ref()
    },
    advance,
    end() {
      heads.end()
      isIdle = true
      received = 0
      withoutAdvance = 0
      socket.unref()
    },
  }
}

/** Makes a stream of the data that a socket gives to a callback. */
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
  // Only reading is metered. A second queue of writes would cost a tenth as much as the whole exchange.
  stream.write = socket.write.bind(socket) as Duplex['write']
  stream.cork = () => socket.cork()
  stream.uncork = () => socket.uncork()
  // The dialler and the reader report errors. Without this listener an earlier error would end the process.
  stream.on('error', () => {})
  socket
    .on('end', () => stream.push(null))
    .on('error', (error) => stream.destroy(error))
    .on('close', () => stream.destroy())
  return stream
}
