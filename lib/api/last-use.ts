import type { Caller } from '../access/admission.ts'
import type { ApiKeyStore } from '../access/api-keys.ts'
import { describeError, type Logger } from '../base/log.ts'

/**
 * Creates a function that records when a key was last used, without delaying the request. Each key has at most one
 * write in flight, since other requests see a stale last use until the write is done.
 */
export function createLastUse(apiKeys: ApiKeyStore, logger: Logger): (caller: Caller) => void {
  const underWay = new Set<string>()

  async function write({ organizationId, keyId }: Caller): Promise<void> {
    try {
      await apiKeys.markUsed(organizationId, keyId)
    } catch (error) {
      // This is best-effort. The next request will try again.
      logger.warn({ keyId, error: describeError(error) }, 'Last use of an API key not recorded')
    } finally {
      underWay.delete(keyId)
    }
  }

  return (caller) => {
    if (underWay.has(caller.keyId)) return
    underWay.add(caller.keyId)
    void write(caller)
  }
}
