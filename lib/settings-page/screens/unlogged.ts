import { BusinessApiError, STORE_UNAVAILABLE } from '../../base/errors.ts'

/** Reads from an unlogged table, such as the request log. Returns `otherwise` on a standby, which can't read them. */
export async function readUnlogged<Found>(found: Promise<Found>, otherwise: Found): Promise<Found> {
  try {
    return await found
  } catch (error) {
    if (error instanceof BusinessApiError && error.code === STORE_UNAVAILABLE) return otherwise
    throw error
  }
}
