import { readOptions } from '../../lib/api/options.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { buildOpenApiDocument } from '../../lib/openapi/document.ts'
import { createRoutes } from '../../lib/resources/records.ts'
import { defineService } from '../../lib/service.ts'

// Prints the document of a host with default options for `npm run lint:openapi`.
const settings = readOptions({}, defineService({ baseUrl: 'https://app.business.test' }))
const operations = createRoutes(createMemoryStore())
process.stdout.write(JSON.stringify(buildOpenApiDocument({ operations, ...settings })))
