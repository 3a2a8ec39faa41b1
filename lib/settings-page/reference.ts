/** The API's own description, from which the reference and the examples are made. */
export interface Reference {
  /** The OpenAPI document. */
  readonly document: object
  /** The URL of the API without a slash at its end. */
  readonly server: string
}

/** @param api the handler that describes itself; undefined: there is no reference */
export function createReference(api: { describe(): object } | undefined): Reference | null {
  if (api === undefined) return null
  let read: Reference | undefined
  const get = (): Reference => {
    read ??= readReference(api.describe())
    return read
  }
  // Built by the first page that needs it.
  return {
    get document() {
      return get().document
    },
    get server() {
      return get().server
    },
  }
}

function readReference(document: object): Reference {
  const { servers } = document as { servers?: readonly { url?: string }[] }
  const url = servers?.[0]?.url?.replace(/\/+$/, '') ?? ''
  return { document, server: url.startsWith('http') ? url : `https://api.example.com${url}` }
}
