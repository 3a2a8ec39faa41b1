import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createTraceparentReader, readTraceparent } from '../../lib/base/traceparent.ts'

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
const SPAN_ID = '00f067aa0ba902b7'
const TRACEPARENT = `00-${TRACE_ID}-${SPAN_ID}-01`

describe('readTraceparent()', () => {
  test('accepts version 00, and from later versions the fields of version 00', () => {
    for (const value of [
      TRACEPARENT,
      `cc-${TRACE_ID}-${SPAN_ID}-01`,
      `01-${TRACE_ID}-${SPAN_ID}-01-more-fields`,
    ])
      assert.equal(readTraceparent(value), TRACEPARENT)
  })

  test('accepts nothing else and never throws', () => {
    const others: unknown[] = [
      undefined,
      null,
      '',
      7,
      {},
      [TRACEPARENT],
      `${TRACEPARENT}-more-fields`,
      `${TRACEPARENT}\n`,
      ` ${TRACEPARENT}`,
      `${TRACEPARENT}, ${TRACEPARENT}`,
      `ff-${TRACE_ID}-${SPAN_ID}-01`,
      `00-${TRACE_ID.toUpperCase()}-${SPAN_ID}-01`,
      `00-${'0'.repeat(32)}-${SPAN_ID}-01`,
      `00-${TRACE_ID}-${'0'.repeat(16)}-01`,
      `00-${TRACE_ID}-${SPAN_ID}`,
      `00-${TRACE_ID}-${SPAN_ID}-1`,
      `01-${TRACE_ID}-${SPAN_ID}-01more`,
      `00-'); drop table events; --`,
    ]
    for (const value of others) assert.equal(readTraceparent(value as string), undefined, String(value))
  })
})

describe('createTraceparentReader()', () => {
  test('returns the validated result of the function, or undefined if it throws', () => {
    assert.equal(createTraceparentReader(() => TRACEPARENT)(), TRACEPARENT)
    assert.equal(createTraceparentReader(() => 'nonsense')(), undefined)
    const failing = (): string => {
      throw new Error('no tracer')
    }
    assert.equal(createTraceparentReader(failing)(), undefined)
  })

  test("rejects an option that isn't a function", () => {
    assert.throws(() => createTraceparentReader(TRACEPARENT as unknown as () => string), {
      name: 'TypeError',
      message: /^Option 'traceparent' must be a function: current value is a string of 55 characters$/,
    })
  })
})
