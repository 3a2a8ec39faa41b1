// The store of custom-store.ts. The team uses a separate project tracker, so lists of projects have the tracker's
// statuses and everything else comes from another store. Stores are objects with several parts, so you can replace a
// whole part or just a single method as we do here. You can also write a store from scratch in the same way. The
// package's memory store is a complete one to read.

import type { Project } from 'business-api-kit'
import { createMemoryStore } from 'business-api-kit/memory'
import { type BusinessApiStore, type Clock, jsonText, storeUnavailable } from 'business-api-kit/store'

/** Returns the statuses of projects by project id. Projects that aren't in the tracker have none. */
export type ReadStatuses = (
  organizationId: string,
  projectIds: readonly string[],
) => Promise<Readonly<Record<string, string>>>

/**
 * Options of `createStore`. By default the store is in memory and the tracker is empty, which is enough for
 * the contract tests.
 */
export interface TrackerStoreOptions {
  /** The store for everything else. Defaults to a memory store that uses `clock`. */
  rest?: BusinessApiStore
  readStatuses?: ReadStatuses
  clock?: Clock
}

/** Creates the store. */
export function createStore({
  clock,
  rest = createMemoryStore({ clock }),
  readStatuses = async () => ({}),
}: TrackerStoreOptions = {}): BusinessApiStore {
  return {
    ...rest,
    projects: {
      ...rest.projects,
      async admitAndList(request, asked) {
        const answer = await rest.projects.admitAndList(request, asked)
        // Only admitted callers may learn anything, including that the tracker is down.
        if (answer.admission.outcome !== 'admitted' || answer.page === null) return answer
        const projects: Project[] = JSON.parse(Buffer.from(answer.page).toString())
        const ids = projects.map(({ id }) => id)
        const statuses = await readStatuses(answer.admission.caller.organizationId, ids)
        const page = projects.map((project) => ({
          ...project,
          status: statuses[project.id] ?? project.status,
        }))
        return { ...answer, page: jsonText(page) }
      },
    },
  }
}

/** Reads statuses with the tracker's HTTP API. */
export function createStatusReader(trackerUrl: string): ReadStatuses {
  return async (organizationId, projectIds) => {
    const url = new URL(`/organizations/${encodeURIComponent(organizationId)}/statuses`, trackerUrl)
    url.searchParams.set('projects', projectIds.join())
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) }).catch((cause: unknown) => {
      // The caller should get a 503 with Retry-After instead of a 500, since this isn't a bug.
      throw storeUnavailable('Cannot list projects because the tracker cannot be reached', cause)
    })
    if (!response.ok)
      throw storeUnavailable(`Cannot list projects because the tracker answered ${response.status}`)
    return (await response.json()) as Record<string, string>
  }
}
