import { type ApiKey, endOfKey } from '../access/api-keys.ts'
import { found } from '../base/host-input.ts'
import type { PurgePreview } from '../postgres/schema/inspector.ts'
import type { DeveloperSettings } from '../settings/developer-settings.ts'
import { OVERLAP_MS } from '../settings/overlap.ts'
import type { WebhookEndpoint } from '../webhooks/endpoints.ts'
import { describeInstallation, type Installation } from '../webhooks/installation.ts'
import { type EndpointOutlook, readOutlook } from '../webhooks/outlook.ts'
import type { QueueCounts } from '../webhooks/queue-counts.ts'
import { type Consequence, countOf } from './confirmation.ts'
import { formatDuration } from './durations.ts'

// What to show when a command asks for confirmation.

/** Consequence of cancelling all pending deliveries. */
export function ofCancelling(queue: QueueCounts, found: Installation | null): Consequence {
  const pending = pendingOf(queue)
  return {
    text: `Cancels ${countOf(pending, 'pending delivery', 'pending deliveries')} of all organizations. The database ${describeInstallation(found)}.`,
    facts: { pending, installation: found?.name ?? null, isMoved: found?.isMoved ?? false },
  }
}

/** Consequence of adopting a database. */
export function ofAdopting(name: string | null, found: Installation | null, queue: QueueCounts): Consequence {
  const pending = pendingOf(queue)
  const becomes = name === null ? 'be known as it is' : `belong to the installation '${name}'`
  return {
    text: `The database ${describeInstallation(found)}. It will ${becomes}. ${countOf(pending, 'delivery is pending and', 'deliveries are pending and')} will be sent: on a copy, cancel first.`,
    facts: { installation: name, before: found?.name ?? null, pending },
  }
}

/** Each count is exact up to 10,000. */
function pendingOf({ due, backingOff, paused, sending }: QueueCounts): number {
  return due + backingOff + paused + sending
}

/** Consequence of revoking a key. @throws `BusinessApiError` with code `not_found` if the key doesn't exist */
export async function ofRevokingKey(
  settings: DeveloperSettings<string, string>,
  owner: string,
  keyId: string,
): Promise<Consequence> {
  const key = await findKey(settings, owner, keyId, 'Cannot revoke an API key')
  const effect = describeEnd(key) ?? 'every further request with it is rejected'
  return { text: `Revokes ${describeKey(key, owner)}: ${effect}.`, facts: factsOf(key) }
}

/** Consequence of rotating a key. @throws `BusinessApiError` with code `not_found` if the key doesn't exist */
export async function ofRotatingKey(
  settings: DeveloperSettings<string, string>,
  owner: string,
  keyId: string,
  overlapMs: number = OVERLAP_MS,
): Promise<Consequence> {
  const key = await findKey(settings, owner, keyId, 'Cannot rotate an API key')
  const refused =
    overlapMs === 0 ? 'every further request' : `in ${formatDuration(overlapMs)} every further request`
  const effect = describeEnd(key) ?? `${refused} with the previous key is rejected`
  return { text: `Replaces ${describeKey(key, owner)}: ${effect}.`, facts: { ...factsOf(key), overlapMs } }
}

async function findKey(
  { apiKeys }: DeveloperSettings<string, string>,
  owner: string,
  keyId: string,
  action: string,
): Promise<ApiKey> {
  const keys = await apiKeys.list(owner)
  return found(keys.find(({ id }) => id === keyId) ?? null, action)
}

function describeKey({ id, name, prefix, lastFour, lastUsedAt }: ApiKey, owner: string): string {
  const agoMs = Date.now() - Date.parse(lastUsedAt ?? '')
  const use = lastUsedAt === null ? 'never used' : `last used ${formatDuration(Math.max(0, agoMs))} ago`
  return `${id} '${name}' (${prefix}…${lastFour}) of ${owner}, ${use}`
}

/** Returns `null` if the key is active. */
function describeEnd(key: ApiKey): string | null {
  const end = endOfKey(key, Date.now())
  return end && { revoked: 'it is already revoked', expired: 'it has already expired' }[end]
}

function factsOf({ id, name, lastUsedAt }: ApiKey): object {
  return { id, name, lastUsedAt }
}

/** An endpoint and the counts to show. */
export interface CountedEndpoint extends EndpointOutlook {
  readonly endpoint: WebhookEndpoint
}

/** @throws `BusinessApiError` with code `not_found` if the organization has no endpoint with this id */
export async function countEndpoint(
  settings: DeveloperSettings<string, string>,
  owner: string,
  endpointId: string,
  action: string,
): Promise<CountedEndpoint> {
  const all = await settings.endpoints.list(owner)
  const endpoint = found(all.find(({ id }) => id === endpointId) ?? null, action)
  return { endpoint, ...(await readOutlook(settings, owner, endpointId)) }
}

/** Consequence of removing an endpoint. */
export function ofRemoving({ endpoint, waiting, recoverable }: CountedEndpoint): Consequence {
  const { id, url } = endpoint
  const unrecoverable = `${countOf(recoverable, 'failed or skipped delivery', 'failed or skipped deliveries')}`
  return {
    text: `Removes ${id} (${url}) and its signing secret for good. ${describeWaiting(waiting)} will be skipped; ${unrecoverable} can never be recovered.`,
    facts: { id, url, waiting, recoverable },
  }
}

/** Consequence of disabling an endpoint. */
export function ofDisabling({ endpoint, waiting }: CountedEndpoint): Consequence {
  const { id, url } = endpoint
  return {
    text: `Disables ${id} (${url}). ${describeWaiting(waiting)} will be skipped; 'deliveries recover' sends skipped deliveries after the endpoint is enabled again.`,
    facts: { id, url, waiting },
  }
}

/** Consequence of rotating an endpoint's signing secret. */
export function ofRotatingSecret(
  { endpoint, waiting }: CountedEndpoint,
  overlapMs: number = OVERLAP_MS,
): Consequence {
  const { id, url } = endpoint
  const previous =
    overlapMs === 0
      ? 'The previous secret ends at once: the subscriber rejects every event until it has the new secret'
      : `The previous secret signs too for ${formatDuration(overlapMs)}`
  return {
    text: `Replaces the signing secret of ${id} (${url}). ${previous}. ${describeWaiting(waiting)}.`,
    facts: { id, url, waiting, overlapMs },
  }
}

function describeWaiting(count: number): string {
  return countOf(count, 'pending delivery', 'pending deliveries')
}

/**
 * Consequence of recovering deliveries.
 *
 * @param disabled ids of the disabled endpoints
 */
export function ofRecovering(
  owner: string,
  failed: number,
  skipped: number,
  disabled: readonly string[],
): Consequence {
  const counts = `${countOf(failed, 'failed', 'failed')} and ${countOf(skipped, 'skipped delivery', 'skipped deliveries')}`
  const are = disabled.length === 1 ? 'is' : 'are'
  const again =
    disabled.length === 0
      ? ''
      : ` ${disabled.join(', ')} ${are} disabled: deliveries there are skipped again.`
  return {
    text: `Sends ${counts} of ${owner} again.${again}`,
    facts: { failed, skipped, disabled },
  }
}

/** Consequence of purging events. @param age the age as typed, for example `30d` */
export function ofPurging(preview: PurgePreview, age: string): Consequence {
  const { events, organizations, failed, isPartial } = preview
  const count = (number: number, noun: string): string => countOf(number, noun, `${noun}s`, isPartial)
  return {
    text: `Erases ${count(events, 'event')} of ${count(organizations, 'organization')}, ${countOf(failed, 'failed delivery', 'failed deliveries', isPartial)} among them: every event older than ${age} with its deliveries and attempts, unless a delivery is still to be sent.`,
    facts: preview,
  }
}
