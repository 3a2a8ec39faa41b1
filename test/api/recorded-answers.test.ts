import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { RESOURCES } from '../../lib/access/scopes.ts'
import { formatAnswers, readAnswers, recordAnswers } from './_answers.ts'
import { startPlatform } from './_api.ts'

// A client that only knows the specification must always get the same bytes. recorded-answers.txt contains the
// responses from before lists had pages. New features may only add the headers listed here.

/** Headers that were added later, by request. */
const ADDED: Readonly<Record<string, RegExp>> = {
  Link: /^GET .*: limit=2 of 3$/,
}

const platform = await startPlatform()
after(() => platform.close())

const FILE = join(import.meta.dirname, 'recorded-answers.txt')
const recording = formatAnswers(await recordAnswers(platform))
// After an intended change, such as a new field, run `npm run answers` and review the diff.
if (process.env.UPDATE_ANSWERS) writeFileSync(FILE, withoutAdded(recording))
const recorded = readAnswers(readFileSync(FILE, 'utf8'))
const today = readAnswers(recording)

/** Removes headers that were added later from a recording. */
function withoutAdded(text: string): string {
  let name = ''
  const kept = text.split('\n').filter((line) => {
    if (line.startsWith('### ')) name = line.slice(4)
    return !isAdded(name, line)
  })
  return kept.join('\n')
}

function isAdded(name: string, line: string): boolean {
  const [, header = ''] = /^([\w-]+): /.exec(line) ?? []
  return ADDED[header]?.test(name) ?? false
}

test('the recording has a response for each operation and each status in the specification', () => {
  assert.deepEqual([...today.keys()], [...recorded.keys()])
  const statuses = new Map<string, Set<string>>()
  for (const [name, [statusLine = '']] of recorded) {
    const operation = name.split(':')[0] ?? ''
    statuses.set(operation, (statuses.get(operation) ?? new Set()).add(statusLine.slice(-3)))
  }
  for (const list of RESOURCES) {
    assert.deepEqual([...(statuses.get(`GET /api/v1/${list}`) ?? [])].toSorted(), LIST_STATUSES, list)
  }
  assert.deepEqual([...(statuses.get('POST /api/v1/clients') ?? [])].toSorted(), CREATE_STATUSES)
  assert.deepEqual(
    [...(statuses.get('POST /api/v1/leads') ?? [])].toSorted(),
    [...CREATE_STATUSES, '404'].toSorted(),
  )
})

const LIST_STATUSES = ['200', '401', '403', '422', '429']
const CREATE_STATUSES = ['200', '400', '401', '403', '413', '415', '422', '429']

describe('responds as recorded', () => {
  for (const [name, lines] of recorded) {
    test(name, () => {
      const now = today.get(name) ?? []
      assert.deepEqual(
        now.filter((line) => !isAdded(name, line)),
        lines,
      )
      const added = Object.entries(ADDED).filter(([, where]) => where.test(name))
      assert.equal(now.length, lines.length + added.length)
    })
  }
})
