import { connect, type Socket, type TcpNetConnectOpts } from 'node:net'
import { Duplex } from 'node:stream'
import { createHeadReader } from './response-head.ts'
import { INVALID_RESPONSE, SendError, toSendError } from './send-error.ts'

/** A TCP connection that reads no more, and no faster, than a webhook response requires. */
export interface MeteredSocket {
  /** The underlying socket. Use this for events and to close the connection, but never for data. */
  readonly socket: Socket
  /** The connection's data, for HTTP or TLS. Closed along with the socket. */
  readonly stream: Duplex
  /** The first error while reading a response. undici only reports that the connection was closed, not TLS alerts. */
  readonly fault: Error | undefined
  /** Limits how responses are read from `stream` or the TLS stream on top. Call this once, before reading anything. */
  meterAnswers(stream: Duplex): void
  /**
   * Starts an exchange. From now on, the connection keeps the process alive.
   *
   * @param onFirstByte called when the first part of the response arrives
   */
  begin(onFirstByte: () => void): void
  /** Must be called whenever part of the response has been parsed. */
  advance(): void
  /** Must be called once the response is complete. Data received before the next exchange closes the connection. */
  end(): void
}

/** Maximum number of bytes to receive per exchange. Measured at the socket, so TLS messages count. */
export const EXCHANGE_MAX_BYTES = 1024 * 1024

/**
 * Maximum number of bytes HTTP may read without completing a part of the response. Limits headers, interim headers,
 * trailers, reason phrases, chunk extensions and blank lines.
 */
export const STEP_MAX_BYTES = 16 * 1024

/**
 * How many bytes to read at a time. Most responses fit. We can only stop the parser between reads, so a response with
 * an error in every header would take longer with a larger value.
 */
const PIECE_BYTES = 2048

const NO_BYTES = Buffer.alloc(0)

/**
 * Opens a connection that limits reading below TLS and HTTP, because both can loop endlessly without calling back, for
 * example over session tickets or blank lines.
 * The first piece of a response is passed on immediately. After that, all connections take turns. Connections don't
 * read from the system while waiting, which slows down the other side.
 *
 * @param turns the queue that all connections share
 */
export function connectMetered(options: TcpNetConnectOpts, turns: ReadingTurns): MeteredSocket {
  let received = 0
  let withoutAdvance = 0
  let isFirst = true
  let isIdle = false
  /** Data that has been read but is waiting for its turn. */
  let waiting: Buffer | undefined
  let top: Duplex | undefined
  let fault: Error | undefined
  let reportFirstByte = (): void => {}
  const heads = createHeadReader(advance)

  const socket = connect({
    ...options,
    // TLS and HTTP decide when to end our side.
    allowHalfOpen: true,
    onread: { buffer: Buffer.allocUnsafe(PIECE_BYTES), callback: take },
  })
  const stream = createStream(socket, () => waiting !== undefined)

  function advance(): void {
    withoutAdvance = 0
  }

  function fail(error: SendError): void {
    // No error if idle, so an attempt that's about to use this connection opens a new one.
    ;(top ?? socket).destroy(isIdle ? undefined : error)
  }

  /** Reads a piece of a response, unless the limit has been reached. */
  function readPiece(answers: Duplex, read: Duplex['read']): Buffer | null {
    // TLS can decrypt up to 16 KiB at once.
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

  /** @returns whether to keep reading */
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
  // Only reads are metered. Buffering writes a second time would make an exchange 10 % more expensive.
  stream.write = socket.write.bind(socket) as Duplex['write']
  stream.cork = () => socket.cork()
  stream.uncork = () => socket.uncork()
  // The dialer and the reader report errors. Without this listener, an earlier error would crash the process.
  stream.on('error', () => {})
  socket
    .on('end', () => stream.push(null))
    .on('error', (error) => stream.destroy(error))
    .on('close', () => stream.destroy())
  return stream
}

/** Shares the event loop between connections that have a lot to read. */
interface ReadingTurns {
  /** Queues a callback that reads something. Never called synchronously. Must be short. */
  wait(read: () => void): void
}

/** How long callbacks may run per event loop iteration, in milliseconds. At least one callback always runs. */
const PASS_MS = 1

/**
 * Creates a queue that takes up at most about 1 ms per event loop iteration. This keeps the rest of the process running
 * even if lots of connections are being flooded.
 */
export function createReadingTurns(): ReadingTurns {
  const queue: (() => void)[] = []
  let isPassComing = false

  function plan(): void {
    if (isPassComing || queue.length === 0) return
    isPassComing = true
    setImmediate(() => {
      isPassComing = false
      takeTurns(performance.now() + PASS_MS)
    })
  }

  function takeTurns(until: number): void {
    queue.shift()?.()
    // Streams pass data on in the next tick, so by now it has been parsed and the time limit covers parsing.
    process.nextTick(() => {
      if (queue.length > 0 && performance.now() < until) takeTurns(until)
      else plan()
    })
  }

  return {
    wait(read) {
      queue.push(read)
      plan()
    },
  }
}
