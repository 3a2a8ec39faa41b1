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
await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })
console.log('ready')
