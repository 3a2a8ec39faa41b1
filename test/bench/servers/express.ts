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
app.listen(Number(process.env.PORT), '127.0.0.1', () => console.log('ready'))
