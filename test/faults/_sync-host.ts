// A host in a separate process that serves the API, delivers webhooks and changes records all the time, also in transactions that
// stay open for seconds.
//
//   node --import tsx test/faults/_sync-host.ts '{"databaseUrl":"postgres://…", …}'
//
// Prints `ready` when the API answers. Reads lines: after `backfill` the endpoint gets the records that exist, and the program
// prints `backfilled`; after `stop` nothing changes any more, and the program prints `stopped`. Ends with the standard input.

import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { BusinessApiError } from '../../lib/base/errors.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import { createPostgresStore, pgTransaction } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, createWebhookSender } from '../../lib/webhooks.ts'
import { randomOf } from '../postgres/_sync.ts'

/** The arguments of a host. */
export interface SyncHostConfig {
  readonly databaseUrl: string
  readonly port: number
  readonly organizationId: string
  readonly endpointId: string
  readonly secretKey: string
  readonly seed: number
}

/** Loops of single changes, and loops of transactions. */
const CHANGERS = 4
const TRANSACTIONS = 4
/** The longest pause of a changer, and the longest time for which a transaction stays open. */
const PAUSE_MS = 60
const OPEN_MS = 3000
/** More attempts than any delivery will fail in. */
const RETRY_DELAYS_MS = Array.from({ length: 99 }, () => 300)

const config = JSON.parse(process.argv[2] ?? '{}') as SyncHostConfig
const { databaseUrl, organizationId: org, endpointId } = config
// Each start goes on with other numbers, because the changes of the start before are in the database.
const random = randomOf(config.seed + process.pid)
const store = createPostgresStore(databaseUrl)
const platform = createPlatform(store)
const settings = createDeveloperSettings(store, {
  secretKeys: [config.secretKey],
  allowHttp: true,
  allowPrivateNetworks: true,
})
// Not postgres.js, which ends the process when a connection dies inside a transaction.
const pool = new pg.Pool({ connectionString: databaseUrl, max: TRANSACTIONS + 1 })
pool.on('error', () => {}).on('connect', (client) => client.on('error', () => {}))
const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
const loop = createDeliveryLoop(store, sender, {
  secretKeys: [config.secretKey],
  retryDelaysMs: RETRY_DELAYS_MS,
  leaseMs: 3000,
  logger: false,
})
let isStopping = false

function isExpected(error: unknown): boolean {
  return error instanceof BusinessApiError
}

/** Ids of records that may be changed; records that were rolled back are refused with `not_found`. */
async function idsOf(table: string, column = 'id'): Promise<string[]> {
  for (;;) {
    try {
      const { rows } = await pool.query<{ id: string }>(
        `select ${column} as id from business_api.${table}
         where organization_id = $1 and ${column} is not null order by ${column} desc limit 20000`,
        [org],
      )
      return rows.map(({ id }) => id)
    } catch {
      await sleep(50)
    }
  }
}

const businesses = await idsOf('businesses')
const clients = await idsOf('businesses', 'client_id')
const leads = await idsOf('leads')
const oneOf = (ids: readonly string[]): string => ids[random(ids.length)] ?? ''

/** Creates or changes a record in a random way. */
async function changeSomething(on: Platform): Promise<void> {
  switch (random(8)) {
    case 0:
    case 1: {
      const client = await on.clients.create(org, { name: `Fliesen „Étoile“ ${random(1e6)}` })
      clients.push(client.id)
      businesses.push(client.business.id)
      return
    }
    case 2: {
      const { id } = await on.leads.create(org, { businessId: oneOf(businesses), leadScore: random(101) })
      leads.push(id)
      return
    }
    case 3:
      return void (await on.clients.setRevenue(org, {
        clientId: oneOf(clients),
        totalRevenue: random(1e6) / 8,
      }))
    case 4: {
      const status = random(2) === 0 ? 'active' : 'inactive'
      return void (await on.clients.setStatus(org, { clientId: oneOf(clients), status }))
    }
    case 5:
      return void (await on.leads.setScore(org, { leadId: oneOf(leads), leadScore: random(101) }))
    case 6:
      return void (await on.leads.setStage(org, { leadId: oneOf(leads), stage: 'contacted' }))
    default: {
      const change = { businessId: oneOf(businesses), city: `Sfax ${random(1e6)}` }
      return void (await on.businesses.update(org, change))
    }
  }
}

async function keepChanging(): Promise<void> {
  while (!isStopping) {
    await changeSomething(platform).catch((error) => {
      if (!isExpected(error)) throw error
    })
    await sleep(random(PAUSE_MS))
  }
}

/** A transaction of the host: a few changes, now and then a rollback, and open for a while. */
async function transact(): Promise<void> {
  const client = await pool.connect()
  let failure: Error | undefined
  try {
    await client.query('begin')
    const on = platform.using(pgTransaction(client))
    const changes = 1 + random(4)
    for (let left = changes; left > 0; left--) {
      await changeSomething(on).catch((error) => {
        // Refused without harm to the transaction, unless the store has failed.
        if (!isExpected(error) || error.code === 'store_unavailable') throw error
      })
      await sleep(random(OPEN_MS / changes))
    }
    await client.query(random(4) === 0 ? 'rollback' : 'commit')
  } catch (error) {
    failure = error as Error
  } finally {
    client.release(failure)
  }
}

async function keepTransacting(): Promise<void> {
  while (!isStopping) {
    // A connection that was cut, a lock that was held: the host would try again.
    await transact().catch(() => {})
    await sleep(random(PAUSE_MS))
  }
}

async function backfill(): Promise<void> {
  for (;;) {
    try {
      await settings.endpoints.backfill(org, endpointId, { types: ['client.created', 'lead.created'] })
      return console.log('backfilled')
    } catch (error) {
      if (!isExpected(error)) throw error
      await sleep(50)
    }
  }
}

const api = createBusinessApi(store, { rateLimit: false, logger: false })
createServer(api).listen(config.port, '127.0.0.1', () => {
  console.log('ready')
  loop.start()
  const changing = [
    ...Array.from({ length: CHANGERS }, keepChanging),
    ...Array.from({ length: TRANSACTIONS }, keepTransacting),
  ]
  createInterface({ input: process.stdin })
    .on('line', (line) => {
      if (line === 'backfill') void backfill()
      if (line !== 'stop') return
      isStopping = true
      void Promise.all(changing).then(() => console.log('stopped'))
    })
    .on('close', () => process.exit())
})
