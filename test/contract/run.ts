import { after, describe, test } from 'node:test'
import { type ContractPart, describeStoreContract } from './store-contract.ts'
import { loadStore } from './store-file.ts'

// Runs the contract, or parts of it, with the store in a file: npm run contract -- ./my-store.ts [PART…] The exit code
// is 0 if all tests pass, 1 if a test fails, and 2 if the file can't be used.

const [path, ...parts] = process.argv.slice(2)
if (path === undefined) {
  console.error('Usage: npm run contract -- ./my-store.ts [PART…]')
  process.exit(2)
}
try {
  const { close, ...store } = await loadStore(path)
  after(close)
  describeStoreContract({
    ...store,
    name: 'your',
    runner: { describe, test },
    parts: parts.length === 0 ? undefined : (parts as ContractPart[]),
  })
} catch (error) {
  console.error(error)
  process.exit(2)
}
