import { api } from '../../lib/api'

export const GET = api.fetch
