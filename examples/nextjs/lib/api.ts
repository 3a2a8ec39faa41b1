import { createBusinessApi } from 'business-api-kit'
import { store } from './store'

export const api = createBusinessApi(store)
