// Hosts that mount the API as lib/api/README.md says, with no parser, with a parser that leaves a value, and with one that
// leaves bytes. Each gives its listening server.

import { createServer } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import { serve } from '@hono/node-server'
import { bodyParser } from '@koa/bodyparser'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express5 from 'express'
import express4 from 'express4'
import Fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import next from 'next'
import 'reflect-metadata'

/** The answer of a host to a path that the API leaves to it. */
const HOST_404 = 'not found, says the host'

function listen(server) {
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

async function readAll(stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}

// --- node:http ---

function nodeListener({ createApi, parser, prefix }) {
  const api = createApi({ basePath: prefix })
  return async (request, response) => {
    try {
      if (parser === 'raw') request.rawBody = await readAll(request)
      if (parser === 'parsed' && request.method === 'POST')
        request.body = JSON.parse(String(await readAll(request)))
    } catch {
      response.writeHead(400).end('bad request, says the host')
      return
    }
    await api(request, response, () => response.writeHead(404).end(HOST_404))
  }
}

const nodeHttp = (cell) => listen(createServer(nodeListener(cell)))
const nodeHttp2 = (cell) => listen(createHttp2Server(nodeListener(cell)))

// --- Express, and Nest on Express ---

function mountIn(app, express, { createApi, parser, prefix }) {
  if (parser === 'parsed') app.use(express.json())
  if (parser === 'raw') app.use(express.raw({ type: '*/*' }))
  app.use(prefix || '/', createApi({}))
}

const onExpress = (express) => (cell) => {
  const app = express()
  // Nothing on stderr for a body that the parser refuses.
  app.set('env', 'test')
  mountIn(app, express, cell)
  app.use((_, response) => response.status(404).send(HOST_404))
  return listen(createServer(app))
}

async function nest({ createApi, parser, prefix }) {
  class App {}
  Module({})(App)
  const app = await NestFactory.create(App, {
    bodyParser: parser !== 'none',
    rawBody: parser === 'raw',
    logger: false,
  })
  // Nest adds its own parsers only when it is initialized, after every app.use().
  if (parser !== 'none') app.useBodyParser('json', { limit: '200kb' })
  app.use(prefix || '/', createApi({}))
  await app.listen(0, '127.0.0.1')
  return app.getHttpServer()
}

// --- Hosts that hand the request over ---

async function fastify({ createApi, parser, prefix }) {
  const api = createApi({ basePath: prefix })
  const app = Fastify()
  if (parser !== 'parsed') app.removeAllContentTypeParsers()
  if (parser === 'none') app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  if (parser === 'raw') {
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) => done(null, bytes))
  }
  app.all(`${prefix}/*`, async (request, reply) => {
    reply.hijack()
    request.raw.body = request.body
    await api(request.raw, reply.raw)
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  return app.server
}

function koa({ createApi, parser, prefix }) {
  const api = createApi({ basePath: prefix })
  const app = new Koa()
  app.silent = true
  if (parser === 'parsed') app.use(bodyParser())
  app.use(async (ctx) => {
    ctx.respond = false
    if (parser === 'parsed') ctx.req.rawBody = ctx.request.rawBody
    if (parser === 'raw') ctx.req.rawBody = await readAll(ctx.req)
    await api(ctx.req, ctx.res)
  })
  return listen(createServer(app.callback()))
}

// --- Fetch ---

/** The body as the parser of the cell leaves it. */
async function readFetch(request, parser) {
  if (parser === 'none' || request.method !== 'POST') return undefined
  return parser === 'raw' ? { rawBody: await request.text() } : { body: await request.json() }
}

function hono({ createApi, parser, prefix }) {
  const api = createApi({ basePath: prefix })
  const app = new Hono()
  app.onError((_, c) => c.text('bad request, says the host', 400))
  app.all(`${prefix}/*`, async (c) => {
    const request = c.req.raw
    const given = await readFetch(request, parser)
    return given ? api.fetch(request, given) : api.fetch(request)
  })
  return new Promise((resolve) => {
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => resolve(server))
  })
}

let nextServer
let nextApp

async function nextjs({ createApi, parser, prefix }) {
  const api = createApi({ basePath: prefix })
  globalThis.mountedApi = async (request) => {
    let given
    try {
      given = await readFetch(request, parser)
    } catch {
      return new Response('bad request, says the host', { status: 400 })
    }
    return given ? api.fetch(request, given) : api.fetch(request)
  }
  if (!nextServer) {
    nextApp = next({ dev: false, dir: `${import.meta.dirname}/next`, hostname: '127.0.0.1', quiet: true })
    await nextApp.prepare()
    const handle = nextApp.getRequestHandler()
    nextServer = await listen(createServer((request, response) => handle(request, response)))
  }
  return nextServer
}

/** Ends the server that all cells of Next.js share. */
export async function closeShared() {
  nextServer?.close()
  nextServer?.closeAllConnections()
  await nextApp?.close()
}

/** Every host; `hasNext`: the API leaves unknown paths to it. */
export const HOSTS = {
  'node:http': { open: nodeHttp, hasNext: true },
  'node:http2, compatibility API': { open: nodeHttp2, hasNext: true, isHttp2: true },
  'Express 4': { open: onExpress(express4), hasNext: true },
  'Express 5': { open: onExpress(express5), hasNext: true },
  NestJS: { open: nest, hasNext: true },
  Fastify: { open: fastify },
  Koa: { open: koa },
  Hono: { open: hono },
  'Next.js': { open: nextjs, isShared: true },
}
