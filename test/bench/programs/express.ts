import type { AddressInfo } from 'node:net'
import express from 'express'
import { createClient, listClients } from './peer.ts'

const app = express()
app.use(express.json())
app.get('/api/v1/clients', async (request, response) => {
  const answer = await listClients(request.headers.authorization, Number(request.query.limit ?? 50))
  response.status(answer.status).json(answer.body)
})
app.post('/api/v1/clients', async (request, response) => {
  const key = request.get('idempotency-key')
  const answer = await createClient(request.headers.authorization, key, request.body)
  response.status(answer.status).json(answer.body)
})
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
process.on('disconnect', () => process.exit())
