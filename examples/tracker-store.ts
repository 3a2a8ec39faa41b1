// The store of custom-store.ts: the team works in a project tracker, another service, so a list of projects has the tracker's
// statuses, and everything else comes from another store. A store is an object of slices, so you can replace a whole slice, or a
// single verb as here. A store without any slice of this package is written the same way; the package's memory store is a
// whole store to read.
//
//   npm run contract -- ./examples/tracker-store.ts      in a clone: tests this store against the contract of stores

import type { Project } from 'business-api-kit'
import { createMemoryStore } from 'business-api-kit/memory'
import { type BusinessApiStore, type Clock, jsonText, storeUnavailable } from 'business-api-kit/store'

/** Reads the statuses of projects, by project id. A project that is not in the tracker has none. */
export type ReadStatuses = (
  organizationId: string,
  projectIds: readonly string[],
) => Promise<Readonly<Record<string, string>>>

/** Options of `createStore`. Without any, the store is in memory and the tracker empty: enough for the contract. */
export interface TrackerStoreOptions {
  /** The store of everything else. Default: in memory, on `clock`. */
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
        // Only an admitted caller may learn anything, even that the tracker is down.
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

/** Reads statuses over the tracker's HTTP API. */
export function createStatusReader(trackerUrl: string): ReadStatuses {
  return async (organizationId, projectIds) => {
    const url = new URL(`/organizations/${encodeURIComponent(organizationId)}/statuses`, trackerUrl)
    url.searchParams.set('projects', projectIds.join())
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) }).catch((cause: unknown) => {
      // "Not now" instead of "a bug": the caller gets 503 and Retry-After, not 500.
      throw storeUnavailable('Cannot list projects because the tracker cannot be reached', cause)
    })
    if (!response.ok)
      throw storeUnavailable(`Cannot list projects because the tracker answered ${response.status}`)
    return (await response.json()) as Record<string, string>
  }
}
