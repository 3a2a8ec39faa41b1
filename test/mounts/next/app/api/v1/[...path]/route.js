// The suite's process holds the API, with the parser of the cell.
const serve = (request) => globalThis.mountedApi(request)

export const GET = serve
export const POST = serve
