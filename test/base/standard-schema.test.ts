import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as v from 'valibot'
import { checkValue, quickCheck, type StandardSchema } from '../../lib/base/standard-schema.ts'

class Entity {
  readonly id = 'a'
  get name(): string {
    return 'b'
  }
}

const Room = v.object({ id: v.string(), name: v.string() })
const SCHEMAS: readonly StandardSchema[] = [
  v.string(),
  v.number(),
  Room,
  v.array(Room),
  v.object({ data: v.array(v.object({ id: v.string(), floor: v.nullable(v.number()) })) }),
  v.object({ id: v.string(), name: v.optional(v.string(), 'Atlas') }),
  v.strictObject({ id: v.string() }),
  v.pipe(
    Room,
    v.transform(({ id }) => id),
  ),
  v.pipe(
    v.array(Room),
    v.check((rooms) => rooms.length > 1),
  ),
  v.object({ id: v.pipe(v.string(), v.trim()), name: v.pipe(v.string(), v.maxLength(3)) }),
]
const room = { id: 'a', name: 'b' }
const VALUES: readonly unknown[] = [
  ...[undefined, null, '', 'a', ' a ', 0, Number.NaN, true, [], {}, room, [room], [room, room]],
  ...[{ ...room, secret: 's' }, [{ ...room, secret: 's' }], { id: 'a' }, { id: ' a ', name: 'long name' }],
  ...[{ id: 'a', name: undefined }, Object.assign([room], { length: 2 }), new Entity(), new Date(0)],
  ...[{ data: [{ id: 'a', floor: null }] }, { data: [{ id: 'a', floor: Number.NaN }] }, { data: 'a' }],
  { ...room, toJSON: () => ({ ...room, secret: 's' }) },
  Object.assign(Object.create({ toJSON: () => 'secret' }), room),
  Object.create(room),
]

test("quickCheck() only accepts a value if its JSON equals that of the schema's output", () => {
  let accepted = 0
  for (const schema of SCHEMAS) {
    const fits = quickCheck(schema)
    for (const value of VALUES) {
      if (!fits(value)) continue
      accepted++
      const checked = checkValue(schema, value)
      assert.ok('value' in checked)
      assert.deepEqual(JSON.parse(JSON.stringify(value)), JSON.parse(JSON.stringify(checked.value)))
    }
  }
  assert.ok(accepted > 10)
  assert.ok(quickCheck(v.object({ data: v.array(Room) }))({ data: [room, room] }))
})

test('quickCheck() lets another library validate its own schema', () => {
  const schema: StandardSchema = {
    '~standard': { version: 1, vendor: 'other', validate: (value) => ({ value: [value] }) },
  }
  assert.equal(quickCheck(Object.assign(schema, { type: 'string' }))('a'), false)
})
