import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import { createClient, listClients } from './peer.ts'

const app = Fastify()
app.get<{ Querystring: { limit?: string } }>('/api/v1/clients', async (request, reply) => {
  const answer = await listClients(request.headers.authorization, Number(request.query.limit ?? 50))
  return reply.code(answer.status).send(answer.body)
})
app.post('/api/v1/clients', async (request, reply) => {
  const key = request.headers['idempotency-key']
  const answer = await createClient(request.headers.authorization, key as string | undefined, request.body)
  return reply.code(answer.status).send(answer.body)
})
await app.listen({ port: 0, host: '127.0.0.1' })
process.send?.({ port: (app.server.address() as AddressInfo).port })
process.on('disconnect', () => process.exit())
