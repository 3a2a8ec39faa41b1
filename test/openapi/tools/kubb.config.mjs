import { defineConfig } from '@kubb/core'
import { pluginClient } from '@kubb/plugin-client'
import { pluginOas } from '@kubb/plugin-oas'
import { pluginTs } from '@kubb/plugin-ts'

// Generates types and a fetch client for the server in the document.
export default defineConfig({
  root: '.',
  input: { path: './generated/openapi.json' },
  output: { path: './generated/kubb', clean: true },
  plugins: [
    pluginOas({ generators: [], serverIndex: 0 }),
    pluginTs({ output: { path: 'types' } }),
    pluginClient({ output: { path: 'clients' }, client: 'fetch' }),
  ],
})
