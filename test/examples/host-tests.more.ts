import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startSource } from './_program.ts'

test('examples/host-tests passes', async () => {
  const program = startSource(['--test-reporter=tap', 'examples/host-tests.ts'], {
    // The runner of this file would take the program's report for its own.
    NODE_TEST_CONTEXT: '',
  })
  assert.equal(await program.exit, 0, program.stdout())
  assert.match(program.stdout(), /# pass 2\n/)
})
