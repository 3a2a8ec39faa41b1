import type { Caller } from '../access/admission.ts'
import type { ApiKeyStore } from '../access/api-keys.ts'
import { describeError, type Logger } from '../base/log.ts'

/**
 * Creates the record of the last use of keys, off the path of the requests. Allows a single write at a time for each key: during the write
 * every further request still finds the last use stale.
 */
export function createLastUse(apiKeys: ApiKeyStore, logger: Logger): (caller: Caller) => void {
  const underWay = new Set<string>()

  async function write({ organizationId, keyId }: Caller): Promise<void> {
    try {
      await apiKeys.markUsed(organizationId, keyId)
    } catch (error) {
      // No caller waits for the write, and the next request repeats a failed write.
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
