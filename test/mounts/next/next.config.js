import { dirname } from 'node:path'

// The packages of test/tools are below this folder.
const root = dirname(dirname(import.meta.dirname))
export default { turbopack: { root }, outputFileTracingRoot: root }
