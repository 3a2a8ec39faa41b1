import type { ApiKeySuccessor } from '../../lib/access/api-keys.ts'
import type { AuditEntry, AuditRecord } from '../../lib/access/audit.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { newEntry } from './audit-entry.ts'
import { claimOne, onlyDelivery, success, writeResults } from './delivering.ts'
import { ids, newEndpoint, newKey, newSuccessor, type Tenant } from './tenant.ts'

// All methods that write an audit entry, each with a call that changes something and one that doesn't.

/** A call to a method with an audit entry. */
export type Call = (store: BusinessApiStore, entry: AuditRecord) => Promise<unknown>

/** A method in a new organization. */
export interface Change {
  /** Changes something on the first call. */
  readonly change: Call
  /** Changes nothing. */
  readonly vain: Call
  /** The subject of the entry, if the method depends on it. */
  readonly subjectId?: string
  /** The details added by the method. */
  readonly added?: AuditEntry['details']
}

/** Changes by method name. Each has its own organization with a key. */
export const changes: Readonly<Record<string, (tenant: Tenant) => Promise<Change>>> = {
  async 'apiKeys.insert()'({ id, key }) {
    const another = newKey()
    return {
      change: ({ apiKeys }, entry) =>
        apiKeys.insert({ organizationId: id, limit: 1000, key: another, entry }),
      vain: ({ apiKeys }, entry) => apiKeys.insert({ organizationId: id, limit: 1000, key, entry }),
    }
  },

  async 'apiKeys.update()'({ id, key }) {
    return {
      change: ({ apiKeys }, entry) =>
        apiKeys.update({ organizationId: id, keyId: key.id, name: 'Another "🏺"', entry }),
      vain: ({ apiKeys }, entry) =>
        apiKeys.update({ organizationId: id, keyId: key.id, name: key.name, entry }),
    }
  },

  async 'apiKeys.revoke()'({ id, key }) {
    return {
      change: ({ apiKeys }, entry) => apiKeys.revoke({ organizationId: id, keyId: key.id, entry }),
      vain: ({ apiKeys }, entry) => apiKeys.revoke({ organizationId: id, keyId: ids('key'), entry }),
    }
  },

  async 'apiKeys.rotate()'({ id, key, insertKey }) {
    const expired = await insertKey({ expiresAt: '2020-02-29T12:00:00.010Z' })
    // Two calls have different entries, and therefore different successors.
    const successors = new Map<string, ApiKeySuccessor>()
    const rotate = (store: BusinessApiStore, keyId: string, entry: AuditRecord) => {
      const successor = successors.get(entry.id) ?? newSuccessor()
      successors.set(entry.id, successor)
      return store.apiKeys.rotate({
        organizationId: id,
        limit: 1000,
        keyId,
        successor,
        overlapMs: 60_000,
        entry,
      })
    }
    return {
      change: (store, entry) => rotate(store, key.id, entry),
      vain: (store, entry) => rotate(store, expired.id, entry),
    }
  },

  async 'apiKeys.limitOrganization()'({ id }) {
    return {
      change: ({ apiKeys }, entry) =>
        apiKeys.limitOrganization({ organizationId: id, rateLimit: { perSecond: 0.5, burst: 3 }, entry }),
      vain: ({ apiKeys }, entry) => apiKeys.limitOrganization({ organizationId: id, rateLimit: null, entry }),
    }
  },

  async 'apiKeys.limitOrganization() of null'({ id, store }) {
    await store.apiKeys.limitOrganization({
      organizationId: id,
      rateLimit: { perSecond: 0.5, burst: 3 },
      entry: newEntry(),
    })
    return {
      change: ({ apiKeys }, entry) =>
        apiKeys.limitOrganization({ organizationId: id, rateLimit: null, entry }),
      vain: ({ apiKeys }, entry) =>
        apiKeys.limitOrganization({ organizationId: id, rateLimit: { perSecond: 0.5, burst: 3 }, entry }),
    }
  },

  async 'endpoints.insert()'({ id, insertEndpoint }) {
    const [present, another] = [await insertEndpoint(), newEndpoint()]
    return {
      change: ({ endpoints }, entry) =>
        endpoints.insert({ organizationId: id, limit: 1000, endpoint: another, entry }),
      vain: ({ endpoints }, entry) =>
        endpoints.insert({ organizationId: id, limit: 1000, endpoint: present, entry }),
    }
  },

  async 'endpoints.update()'({ id, insertEndpoint }) {
    const { id: endpointId, url } = await insertEndpoint({
      types: ['client.created'],
      headerNames: ['X-A'],
      sealedHeaders: 'sealed',
    })
    const headers = { headerNames: ['X-A'], sealedHeaders: 'sealed', replaces: 'sealed' }
    const same = { url, types: ['client.created'], headers, description: '' } as const
    const anew = { ...headers, sealedHeaders: 'sealed anew' }
    const other = { url, types: null, headers: anew, description: '' }
    return {
      change: ({ endpoints }, entry) =>
        endpoints.update({ organizationId: id, endpointId, changes: other, entry }),
      vain: ({ endpoints }, entry) =>
        endpoints.update({ organizationId: id, endpointId, changes: same, entry }),
      added: { fields: ['types', 'headers'] },
    }
  },

  async 'endpoints.setState()'({ id, insertEndpoint }) {
    const { id: endpointId } = await insertEndpoint()
    return {
      change: ({ endpoints }, entry) =>
        endpoints.setState({ organizationId: id, endpointId, state: 'paused', from: ['enabled'], entry }),
      vain: ({ endpoints }, entry) =>
        endpoints.setState({ organizationId: id, endpointId, state: 'enabled', from: ['paused'], entry }),
    }
  },

  async 'endpoints.remove()'({ id, insertEndpoint }) {
    const { id: endpointId } = await insertEndpoint()
    return {
      change: ({ endpoints }, entry) => endpoints.remove({ organizationId: id, endpointId, entry }),
      vain: ({ endpoints }, entry) => endpoints.remove({ organizationId: id, endpointId: ids('we'), entry }),
    }
  },

  async 'endpoints.rotateSecret()'({ id: organizationId, insertEndpoint }) {
    const { id: endpointId, sealedSecret } = await insertEndpoint()
    const changeId = ids('chg')
    const rotation = { organizationId, endpointId, changeId, overlapMs: 60_000 }
    return {
      change: ({ endpoints }, entry) =>
        endpoints.rotateSecret({ ...rotation, sealedSecret: 'sealed anew', entry }),
      vain: ({ endpoints }, entry) => endpoints.rotateSecret({ ...rotation, sealedSecret, entry }),
      added: { changeId },
    }
  },

  async 'deliveries.recover()'(tenant) {
    const { id } = tenant
    await tenant.insertEndpoint()
    await tenant.publish()
    const delivered = await claimOne(tenant)
    await writeResults(tenant, [success(delivered)])
    return {
      change: ({ deliveries }, entry) =>
        deliveries.recover({ organizationId: id, ids: [delivered.id], filter: {}, limit: 1, entry }),
      vain: ({ deliveries }, entry) =>
        deliveries.recover({ organizationId: id, ids: [ids('dlv')], filter: {}, limit: 1, entry }),
      subjectId: delivered.id,
      added: { recovered: 1 },
    }
  },

  async 'deliveries.cancel()'(tenant) {
    const { id } = tenant
    await tenant.insertEndpoint()
    await tenant.publish()
    const { id: pending } = await onlyDelivery(tenant)
    return {
      change: ({ deliveries }, entry) =>
        deliveries.cancel({ organizationId: id, deliveryId: pending, entry }),
      vain: ({ deliveries }, entry) =>
        deliveries.cancel({ organizationId: id, deliveryId: ids('dlv'), entry }),
    }
  },
}

/** Returns everything that an administrator can see in an organization, except the audit. */
export async function settingsOf({ store, id }: Tenant): Promise<object> {
  return {
    keys: await store.apiKeys.list(id),
    endpoints: await store.endpoints.list(id),
    deliveries: await store.deliveries.list(id, {}, 1000, null),
  }
}

/** Returns the organization's entries, newest first. */
export function entriesOf({ store, id }: Tenant, subjectId?: string): Promise<readonly AuditEntry[]> {
  return store.audit.list(id, subjectId === undefined ? {} : { subjectId }, 1000, null)
}
