import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LeadStage } from '../../lib/platform.ts'
import type { Client } from '../../lib/resources/clients.ts'
import type { Lead } from '../../lib/resources/leads.ts'
import { describeOnEveryStore, type NewHost } from './_platform.ts'
import { clientIn, leadIn } from './_records.ts'

// Every call in every state of a lead or client. See transitions.test.ts.

const REFUSED = 'invalid_state'

describeOnEveryStore((newHost) => {
  testLeads(newHost)
  testClients(newHost)
})

function testLeads(newHost: NewHost): void {
  const stages: readonly LeadStage[] = ['new', 'contacted', 'qualified', 'proposal', 'won', 'lost']
  for (const from of stages) {
    for (const stage of stages) {
      const isFinal = from === 'won' || from === 'lost'
      const does = isFinal
        ? 'is refused'
        : from === stage
          ? 'publishes nothing'
          : 'publishes lead.stage_changed'
      test(`leads: setStage to ${stage} from ${from} ${does}`, async () => {
        const host = await newHost()
        const { organizationId, platform } = host
        const { lead, businessId } = await leadIn(host, from)
        const before = await host.everything()
        const published = (await host.events()).length
        const attempt = platform.leads.setStage(organizationId, { leadId: lead.id, stage })
        if (isFinal) {
          await assert.rejects(attempt, {
            code: REFUSED,
            message: `Cannot set the stage of the lead because it is ${from}`,
          })
          assert.deepEqual(await host.everything(), before)
          return
        }
        assert.deepEqual(await attempt, { ...lead, stage })
        assert.deepEqual(await host.list('leads'), [{ ...lead, stage }])
        const events = (await host.events()).slice(published)
        const data = { leadId: lead.id, businessId, stage, previousStage: from }
        const expected = from === stage ? [] : [{ type: 'lead.stage_changed', data }]
        assert.deepEqual(
          events.map((event) => ({ type: event.type, data: event.data })),
          expected,
        )
      })
    }

    test(`leads: setScore of a lead that is ${from} sets the score and band and publishes nothing`, async () => {
      const host = await newHost()
      const { lead } = await leadIn(host, from)
      const published = await host.events()
      const bands: [number | null, Lead['scoreBand']][] = [
        [null, null],
        [0, 'cold'],
        [39.999, 'cold'],
        [40, 'warm'],
        [69.999, 'warm'],
        [70, 'hot'],
        [100, 'hot'],
      ]
      for (const [leadScore, scoreBand] of bands) {
        const { organizationId, platform } = host
        const scored = await platform.leads.setScore(organizationId, { leadId: lead.id, leadScore })
        assert.deepEqual(scored, { ...lead, leadScore, scoreBand })
        assert.deepEqual(await host.list('leads'), [scored])
      }
      assert.deepEqual(await host.events(), published)
    })

    test(`leads: convert from ${from} ${from === 'lost' ? 'is rejected' : 'creates a client'}`, async () => {
      const host = await newHost()
      const { organizationId, platform } = host
      const { lead, businessId } = await leadIn(host, from)
      const before = await host.everything()
      const published = (await host.events()).length
      const attempt = platform.leads.convert(organizationId, { leadId: lead.id })
      if (from === 'lost') {
        await assert.rejects(attempt, { code: REFUSED })
        assert.deepEqual(await host.everything(), before)
        return
      }
      const { lead: won, client } = await attempt
      assert.deepEqual(won, { ...lead, stage: 'won' })
      assert.deepEqual([client.status, client.totalRevenue, client.monthlyRevenue], ['active', 0, 0])
      assert.deepEqual([await host.list('leads'), await host.list('clients')], [[won], [client]])
      const moved = { leadId: lead.id, businessId, stage: 'won', previousStage: from }
      const created = { type: 'client.created', data: { clientId: client.id, businessId, client } }
      assert.deepEqual(
        (await host.events()).slice(published).map(({ type, data }) => ({ type, data })),
        from === 'won' ? [created] : [{ type: 'lead.stage_changed', data: moved }, created],
      )
    })
  }
}

function testClients(newHost: NewHost): void {
  for (const from of ['active', 'inactive'] as const) {
    for (const status of ['active', 'inactive'] as const) {
      test(`clients: setStatus from ${from} to ${status} publishes nothing`, async () => {
        const host = await newHost()
        const { organizationId, platform } = host
        const client = await clientIn(host, from)
        const published = await host.events()
        const changed = await platform.clients.setStatus(organizationId, { clientId: client.id, status })
        assert.deepEqual(changed, { ...client, status })
        assert.deepEqual(await host.list('clients'), [changed])
        assert.deepEqual(await host.events(), published)
      })
    }

    test(`clients: setRevenue of a client that is ${from} sets the given revenue and publishes nothing`, async () => {
      const host = await newHost()
      const { organizationId, platform } = host
      const client = await clientIn(host, from)
      const published = await host.events()
      let expected: Client = client
      for (const revenue of [
        { totalRevenue: 18250.5 },
        { monthlyRevenue: 1200.125 },
        { totalRevenue: -0.001, monthlyRevenue: 999_999_999_999.999 },
        {},
        { totalRevenue: -0 },
      ]) {
        expected = { ...expected, ...revenue }
        const changed = await platform.clients.setRevenue(organizationId, { clientId: client.id, ...revenue })
        assert.deepEqual(changed, { ...expected, totalRevenue: expected.totalRevenue + 0 })
        assert.deepEqual(await host.list('clients'), [changed])
      }
      assert.deepEqual(await host.events(), published)
    })
  }
}
