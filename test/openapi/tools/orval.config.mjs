// Generates types and a fetch client for the server in the document.
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
