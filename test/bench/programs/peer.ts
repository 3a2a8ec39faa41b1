import { createHash, randomUUID } from 'node:crypto'
import pg from 'pg'
import { z } from 'zod4'

// A server as a team would write by hand: key lookup, scope, validation, and in a single transaction the idempotency key, the
// business, the client, both events and a delivery of each event to each endpoint. The lack of rate limits and request ids
// favours this server.

const isLimited = process.argv[3] === 'limited'
const pool = new pg.Pool({ connectionString: process.argv[2], max: 10 })

const CreateClient = z.object({
  name: z.string().min(2).max(150),
  category: z.string().max(80).optional(),
  city: z.string().max(80).optional(),
  email: z.email().optional(),
  phone: z.string().max(30).optional(),
})

/** The answer of a peer, before serialization. */
export interface Answer {
  readonly status: number
  readonly body: unknown
}

/** The organization of a bearer key that carries a scope; else the refusal. */
async function authorize(header: string | undefined, scope: string): Promise<string | Answer> {
  const digest = createHash('sha256')
    .update(header?.replace(/^Bearer /, '') ?? '')
    .digest('hex')
  const { rows } = await pool.query(
    `select organization_id, scopes, per_second, burst from peer.api_keys
     where digest = $1 and revoked_at is null and (expires_at is null or expires_at > now())`,
    [digest],
  )
  const key = rows[0]
  if (!key) return { status: 401, body: { error: 'Invalid API key' } }
  if (isLimited && !(await takeToken(digest, key)))
    return { status: 429, body: { error: 'Too many requests' } }
  return key.scopes.includes(scope) ? key.organization_id : { status: 403, body: { error: 'Missing scope' } }
}

/** Takes a token from the bucket of a key, which all processes share, in one statement. */
async function takeToken(digest: string, limit: { per_second: number; burst: number }): Promise<boolean> {
  const { rowCount } = await pool.query(
    `insert into peer.rate_buckets as bucket (digest, tokens, at) values ($1, $3::float8 - 1, now())
     on conflict (digest) do update set
       tokens = least($3::float8, bucket.tokens + extract(epoch from now() - bucket.at)::float8 * $2::float8) - 1, at = now()
     where least($3::float8, bucket.tokens + extract(epoch from now() - bucket.at)::float8 * $2::float8) >= 1
     returning 1`,
    [digest, limit.per_second, limit.burst],
  )
  return rowCount === 1
}

/** Lists the newest clients of the organization that owns the key. @param header the `Authorization` of the request */
export async function listClients(header: string | undefined, limit: number): Promise<Answer> {
  const organizationId = await authorize(header, 'clients:read')
  if (typeof organizationId !== 'string') return organizationId
  const { rows } = await pool.query(
    `select c.*, b.name, b.category, b.city, b.email, b.phone from peer.clients c
     join peer.businesses b on b.organization_id = c.organization_id and b.id = c.business_id
     where c.organization_id = $1 order by c.id desc limit $2`,
    [organizationId, limit],
  )
  return { status: 200, body: { data: rows.map(toClient) } }
}

function toClient(row: Record<string, unknown>): object {
  return {
    id: row.id,
    status: row.status,
    totalRevenue: Number(row.total_revenue),
    monthlyRevenue: Number(row.monthly_revenue),
    convertedAt: (row.converted_at as Date).toISOString(),
    business: {
      id: row.business_id,
      name: row.name,
      category: row.category,
      city: row.city,
      email: row.email,
      phone: row.phone,
    },
  }
}

/**
 * Creates a client, the business, two events, the deliveries and the reply of the idempotency key, in one transaction.
 *
 * @param header the `Authorization` of the request
 * @param key the `Idempotency-Key` of the request
 * @param body the parsed body
 */
export async function createClient(
  header: string | undefined,
  key: string | undefined,
  body: unknown,
): Promise<Answer> {
  const organizationId = await authorize(header, 'clients:write')
  if (typeof organizationId !== 'string') return organizationId
  const input = CreateClient.safeParse(body)
  if (!input.success) return { status: 422, body: { error: input.error.message } }
  const { name, category = null, city = null, email = null, phone = null } = input.data
  const connection = await pool.connect()
  try {
    await connection.query('begin')
    if (key) {
      const claimed = await connection.query(
        'insert into peer.idempotency_keys (organization_id, key) values ($1, $2) on conflict do nothing returning 1',
        [organizationId, key],
      )
      if (claimed.rowCount === 0) {
        const stored = await connection.query(
          'select reply from peer.idempotency_keys where organization_id = $1 and key = $2',
          [organizationId, key],
        )
        await connection.query('commit')
        return { status: 200, body: stored.rows[0].reply }
      }
    }
    const business = { id: randomUUID(), name, category, city, email, phone }
    const client = {
      id: randomUUID(),
      status: 'active',
      totalRevenue: 0,
      monthlyRevenue: 0,
      convertedAt: new Date().toISOString(),
      business,
    }
    const events = [{ id: randomUUID() }, { id: randomUUID() }] as const
    await connection.query('insert into peer.businesses values ($1, $2, $3, $4, $5, $6, $7)', [
      organizationId,
      business.id,
      name,
      category,
      city,
      email,
      phone,
    ])
    await connection.query('insert into peer.clients values ($1, $2, $3, $4, 0, 0, $5)', [
      organizationId,
      client.id,
      business.id,
      client.status,
      client.convertedAt,
    ])
    await connection.query(
      'insert into peer.events (organization_id, id, type, body) values ($1, $2, $3, $4), ($1, $5, $6, $7)',
      [
        organizationId,
        events[0].id,
        'business.created',
        { businessId: business.id, business },
        events[1].id,
        'client.created',
        { clientId: client.id, businessId: business.id, client },
      ],
    )
    await connection.query(
      `insert into peer.deliveries (organization_id, event_id, endpoint_id)
       select $1, event_id, id from peer.endpoints, unnest($2::text[]) as event_id
       where organization_id = $1 and enabled`,
      [organizationId, events.map(({ id }) => id)],
    )
    if (key) {
      await connection.query(
        'update peer.idempotency_keys set reply = $3 where organization_id = $1 and key = $2',
        [organizationId, key, { data: client }],
      )
    }
    await connection.query('commit')
    return { status: 200, body: { data: client } }
  } catch (error) {
    await connection.query('rollback')
    throw error
  } finally {
    connection.release()
  }
}
