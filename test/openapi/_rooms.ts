import * as v from 'valibot'
import { defineRoute, page, type Route, readPage } from '../../lib/index.ts'

// A host's routes for use with third-party tools. There are a list, a retrieval with a parameter, and a create. The
// rooms are kept in memory.

const Room = v.object({
  id: v.pipe(v.string(), v.maxLength(64), v.description('The room.'), v.examples(['room_1'])),
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(80), v.examples(['Atlas'])),
})
const rooms = [{ id: 'room_1', name: 'Atlas' }]

const listRooms: Route = defineRoute({
  method: 'GET',
  path: '/rooms',
  operationId: 'listRooms',
  summary: 'List rooms',
  tag: 'Rooms',
  scope: 'clients:read',
  query: v.object({ name: v.optional(v.pipe(v.string(), v.maxLength(80))) }),
  paged: /^room_[0-9]{1,9}$/,
  response: v.object({ data: v.pipe(v.array(Room), v.maxLength(200)) }),
  handle(context) {
    const { limit, before } = readPage(context)
    const start = rooms.findIndex(({ id }) => id === before) + 1
    return page(rooms.slice(start, start + limit + 1), context)
  },
})

const getRoom: Route = defineRoute({
  method: 'GET',
  path: '/rooms/{roomId}',
  operationId: 'getRoom',
  summary: 'Get a room',
  tag: 'Rooms',
  scope: 'clients:read',
  errors: { 404: 'No such room.' },
  response: v.object({ data: Room }),
  handle: ({ input }) => ({ data: rooms.find(({ id }) => id === input.params.roomId) ?? ANY }),
})
const ANY = { id: 'room_0', name: 'Any' }

const createRoom: Route = defineRoute({
  method: 'POST',
  path: '/rooms',
  operationId: 'createRoom',
  summary: 'Create a room',
  tag: 'Rooms',
  scope: 'clients:write',
  idempotent: false,
  body: v.object({ name: Room.entries.name }),
  response: v.object({ data: Room }),
  handle({ input }) {
    const room = { id: `room_${rooms.length + 1}`, name: input.body.name }
    rooms.push(room)
    return { data: room }
  },
})

export const roomRoutes: readonly Route[] = [listRooms, getRoom, createRoom]
