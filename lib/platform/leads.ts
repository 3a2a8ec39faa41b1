import * as v from 'valibot'
import { blank } from '../blanks.ts'
import { type Client, clientEvents } from '../clients.ts'
import type { RecordedEvent } from '../envelope.ts'
import { recordWithBlanks } from '../envelope.ts'
import { BusinessApiError, NOT_FOUND } from '../errors.ts'
import { IdSchema } from '../input.ts'
import {
  type Conversion,
  type ConvertedLead,
  CreateLeadInputSchema,
  type Lead,
  leadEvents,
  newLead,
  scoreBand,
} from '../leads.ts'
import { toTimestamp } from '../making.ts'
import type { RecordStore } from '../store.ts'
import {
  type Call,
  type CallOptions,
  type CallTools,
  changedItem,
  changeOf,
  createdItem,
  defineCall,
  withReply,
} from './calls.ts'
import { AmountSchema, amount } from './inputs.ts'

// --- Types ---

/** From these a lead can go anywhere. */
const OPEN_STAGES = ['new', 'contacted', 'qualified', 'proposal'] as const
/** Won and lost are final. */
const STAGES = [...OPEN_STAGES, 'won', 'lost'] as const

/** Where a lead stands. */
export type LeadStage = (typeof STAGES)[number]

/** A lead to be created. */
export interface NewLead extends CallOptions {
  /** A business of the organization. */
  readonly businessId: string
  /** 0 to 100, at most three decimals. Default null. */
  readonly leadScore?: number | null | undefined
  /** What the deal may be worth, at most three decimals. Default null. */
  readonly expectedValue?: number | null | undefined
}

/** What the host does with leads. Every call about one of them throws `not_found` for an id that the organization does not have. */
export interface LeadCalls {
  /**
   * Creates a lead in stage `new`. Publishes `lead.created`.
   *
   * @throws `BusinessApiError` with code `not_found` when the organization has no business of that id
   */
  create(organizationId: string, lead: NewLead): Promise<Lead>
  /**
   * Moves a lead from an open stage (`new`, `contacted`, `qualified`, `proposal`) to any stage. Publishes
   * `lead.stage_changed`, unless it is in that open stage already.
   *
   * @throws `BusinessApiError` with code `invalid_state` when it is won or lost
   */
  setStage(
    organizationId: string,
    change: { readonly leadId: string; readonly stage: LeadStage } & CallOptions,
  ): Promise<Lead>
  /** Sets a lead's score, 0 to 100 or null, and with it its band. Publishes nothing. */
  setScore(
    organizationId: string,
    change: { readonly leadId: string; readonly leadScore: number | null } & CallOptions,
  ): Promise<Lead>
  /**
   * Wins a lead and makes its business a client, unless it is one: a business becomes a client once. Publishes
   * `lead.stage_changed` unless the lead was won before, and `client.created` if a client is made.
   *
   * @returns the lead, and the client that its business is now
   * @throws `BusinessApiError` with code `invalid_state` when it is lost
   */
  convert(organizationId: string, lead: { readonly leadId: string } & CallOptions): Promise<ConvertedLead>
}

// --- Inputs ---

const ScoreSchema = v.nullable(amount(0, 100))

const CreateSchema = v.object({
  ...CreateLeadInputSchema.entries,
  leadScore: v.exactOptional(ScoreSchema),
  expectedValue: v.exactOptional(v.nullable(AmountSchema)),
})
const SetStageSchema = v.object({
  leadId: IdSchema,
  stage: v.picklist(STAGES, `must be one of ${STAGES.join(', ')}`),
})
const SetScoreSchema = v.object({ leadId: IdSchema, leadScore: ScoreSchema })
const ConvertSchema = v.object({ leadId: IdSchema })

// --- Calls ---

/** The calls about leads. */
export function createLeadCalls(store: Pick<RecordStore, 'leads'>, tools: CallTools): LeadCalls {
  const readCreate = defineCall('leads.create', 'Cannot create the lead', CreateSchema, tools)
  const readStage = defineCall('leads.setStage', 'Cannot set the stage of the lead', SetStageSchema, tools)
  const readScore = defineCall('leads.setScore', 'Cannot set the score of the lead', SetScoreSchema, tools)
  const readConvert = defineCall('leads.convert', 'Cannot convert the lead', ConvertSchema, tools)

  return {
    async create(organizationId, lead) {
      const call = readCreate(organizationId, lead)
      const { record, item, events } = newLead(call.input, call.making)
      const idempotency = withReply(call.claim, item)
      const outcome = await store.leads.create({
        organizationId: call.organizationId,
        record,
        events,
        idempotency,
      })
      if (outcome.outcome === 'no_business') {
        throw new BusinessApiError(NOT_FOUND, `${call.action} as the organization has no business of that id`)
      }
      return createdItem(call, outcome, item)
    },

    async setStage(organizationId, given) {
      const call = readStage(organizationId, given)
      const { leadId, stage } = call.input
      const events = [stageChanged(call, leadId, stage)]
      const change = changeOf(call, { recordId: leadId, from: OPEN_STAGES, set: { stage }, events })
      return changedItem(call, await store.leads.change(change), {})
    },

    async setScore(organizationId, given) {
      const call = readScore(organizationId, given)
      const { leadId, leadScore } = call.input
      const set = { leadScore, scoreBand: scoreBand(leadScore) }
      const change = changeOf(call, { recordId: leadId, from: null, set, events: [] })
      return changedItem(call, await store.leads.change(change), {})
    },

    async convert(organizationId, given) {
      const call = readConvert(organizationId, given)
      const { leadId } = call.input
      const events = [stageChanged(call, leadId, 'won')]
      const from = [...OPEN_STAGES, 'won']
      const change = changeOf(call, { recordId: leadId, from, set: conversion(call), events })
      return changedItem(call, await store.leads.convert(change), {})
    },
  }
}

function stageChanged({ making }: Call<unknown>, leadId: string, stage: LeadStage): RecordedEvent {
  const data = { leadId, businessId: blank('businessId'), stage, previousStage: blank('previousStage') }
  return recordWithBlanks(leadEvents, 'lead.stage_changed', data, making)
}

function conversion({ making }: Call<unknown>): Conversion {
  const client: Omit<Client, 'business'> = {
    id: making.ids('cli'),
    status: 'active',
    totalRevenue: 0,
    monthlyRevenue: 0,
    convertedAt: toTimestamp(making.now),
  }
  const data = { clientId: client.id, businessId: blank('businessId'), client: blank('client') }
  return {
    stage: 'won',
    client,
    clientEvents: [recordWithBlanks(clientEvents, 'client.created', data, making)],
  }
}
