// Types and a client with fetch, for the server that the document names.
export default {
  api: {
    input: { target: './generated/openapi.json' },
    output: {
      target: './generated/orval.ts',
      client: 'fetch',
      mode: 'single',
      baseUrl: { getBaseUrlFromSpecification: true },
    },
  },
}
