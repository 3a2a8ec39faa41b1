import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { sleep, withDeadline } from '../../lib/base/time.ts'

describe('sleep() and withDeadline()', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }))
  afterEach(() => mock.timers.reset())

  test('sleep() ends after the given time and not before', async () => {
    let isAwake = false
    const slept = sleep(100).then(() => {
      isAwake = true
    })
    mock.timers.tick(99)
    await turn()
    assert.equal(isAwake, false)
    mock.timers.tick(1)
    await slept
  })

  test('withDeadline() returns the result of the work or throws its error', async () => {
    const late = (): never => assert.fail('late')
    assert.equal(await withDeadline(Promise.resolve(7), 100, late), 7)
    await assert.rejects(withDeadline(Promise.reject(new RangeError('a bug')), 100, late), RangeError)
    // No timer is left.
    mock.timers.tick(1000)
  })

  test('withDeadline() returns the result of onLate on timeout or throws its error', async () => {
    const never = new Promise<never>(() => {})
    const answers = [
      withDeadline(never, 100, () => 'late'),
      withDeadline(never, 100, () => {
        throw new RangeError('late')
      }).catch((error) => error.message),
    ]
    mock.timers.tick(99)
    assert.equal(await Promise.race([...answers, turn('not yet')]), 'not yet')
    mock.timers.tick(1)
    assert.deepEqual(await Promise.all(answers), ['late', 'late'])
  })

  test('withDeadline() ignores work that fails after the deadline', async () => {
    let fail = (_error: Error): void => {}
    const work = new Promise<never>((_, reject) => {
      fail = reject
    })
    const answer = withDeadline(work, 100, () => 'late')
    mock.timers.tick(100)
    assert.equal(await answer, 'late')
    fail(new Error('too late to matter'))
    await turn()
  })
})
