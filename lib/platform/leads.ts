import * as v from 'valibot'
import { NOT_FOUND, refused } from '../base/errors.ts'
import * as field from '../base/fields.ts'
import { IdSchema, oneOf } from '../base/host-input.ts'
import type { PageQuery } from '../base/page.ts'
import type { RecordStore } from '../business-store.ts'
import { clientEvents, convertedClient } from '../resources/clients.ts'
import {
  type Conversion,
  type ConvertedLead,
  CreateLeadInputSchema,
  type Lead,
  type LeadFilter,
  leadEvents,
  newLead,
  type StoredLead,
  scoreBand,
} from '../resources/leads.ts'
import { buildEventTemplate, type EventRecord } from '../writes/event-envelope.ts'
import {
  type CallOptions,
  type CallTools,
  changed,
  createBuildWrite,
  created,
  type WriteCall,
} from './calls.ts'
import { createReads, type Reads, StatesSchema } from './reads.ts'

// --- Types ---

/** All open stages. From any of these, a lead can move to any stage. */
const OPEN_STAGES = ['new', 'contacted', 'qualified', 'proposal'] as const
/** All stages. Won and lost are final. */
export const STAGES = [...OPEN_STAGES, 'won', 'lost'] as const

/** A lead's stage. */
export type LeadStage = (typeof STAGES)[number]

/** A new lead. */
export interface NewLead extends CallOptions {
  /** Id of a business in the same organization. */
  readonly businessId: string
  /** From 0 to 100 with up to three decimal places. Defaults to `null`. */
  readonly leadScore?: number | null | undefined
  /** The deal's expected value, with up to three decimal places. Defaults to `null`. */
  readonly expectedValue?: number | null | undefined
}

/** Filtering and paging options for leads. Missing properties match everything. */
export interface LeadQuery extends PageQuery, LeadFilter {}

/** Lead calls. Calls that take a lead id throw `not_found` if the organization has no such lead. */
export interface LeadCalls extends Reads<StoredLead, LeadQuery> {
  /**
   * Creates a lead in stage `new`. Publishes `lead.created`.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no business with this id
   */
  create(organizationId: string, lead: NewLead): Promise<Lead>
  /**
   * Moves a lead from an open stage (`new`, `contacted`, `qualified`, `proposal`) to any stage. Publishes
   * `lead.stage_changed`, unless the lead is already in that stage.
   *
   * @throws `BusinessApiError` with code `invalid_state` if the lead is won or lost
   */
  setStage(
    organizationId: string,
    change: { readonly leadId: string; readonly stage: LeadStage } & CallOptions,
  ): Promise<Lead>
  /** Sets a lead's score (0 to 100, or `null`). The band is derived from the score. Doesn't publish anything. */
  setScore(
    organizationId: string,
    change: { readonly leadId: string; readonly leadScore: number | null } & CallOptions,
  ): Promise<Lead>
  /**
   * Wins a lead and converts the business to a client, if necessary. Publishes `lead.stage_changed` if the lead wasn't
   * already won, and `client.created` if there's a new client.
   *
   * @returns the lead, along with the client
   * @throws `BusinessApiError` with code `invalid_state` if the lead is lost
   */
  convert(organizationId: string, lead: { readonly leadId: string } & CallOptions): Promise<ConvertedLead>
}

// --- Inputs ---

const ScoreSchema = v.nullable(field.decimal(0, 100))

const CREATE_FIELDS = {
  ...CreateLeadInputSchema.entries,
  leadScore: v.exactOptional(ScoreSchema),
  expectedValue: v.exactOptional(v.nullable(field.decimal(0))),
}
const SET_STAGE_FIELDS = {
  leadId: IdSchema,
  stage: oneOf(STAGES),
}
const SET_SCORE_FIELDS = { leadId: IdSchema, leadScore: ScoreSchema }
const FILTER = { stages: v.exactOptional(StatesSchema), businessId: v.exactOptional(IdSchema) }

// --- Calls ---

/** Creates the lead calls. */
export function createLeadCalls(store: Pick<RecordStore, 'leads'>, tools: CallTools): LeadCalls {
  const build = createBuildWrite(tools)
  return {
    ...createReads(['lead', 'leads'], FILTER, () => store.leads),

    create: build('leads.create', 'Cannot create the lead', CREATE_FIELDS, async (call) =>
      created(call, newLead(call.input, call.context), async (creation) => {
        const outcome = await store.leads.create(creation)
        if (outcome.outcome !== 'no_business') return outcome
        throw refused(call.action, NOT_FOUND, 'the organization has no business with this id')
      }),
    ),

    setStage: build('leads.setStage', 'Cannot set the stage of the lead', SET_STAGE_FIELDS, async (call) => {
      const { leadId, stage } = call.input
      const events = [stageChanged(call, leadId, stage)]
      const change = { recordId: leadId, from: OPEN_STAGES, set: { stage }, events }
      return changed(call, change, (given) => store.leads.change(given), {})
    }),

    setScore: build('leads.setScore', 'Cannot set the score of the lead', SET_SCORE_FIELDS, async (call) => {
      const { leadId, leadScore } = call.input
      const set = { leadScore, scoreBand: scoreBand(leadScore) }
      return changed(call, { recordId: leadId, set }, (change) => store.leads.change(change), {})
    }),

    convert: build('leads.convert', 'Cannot convert the lead', { leadId: IdSchema }, async (call) => {
      const { leadId } = call.input
      const events = [stageChanged(call, leadId, 'won')]
      const change = { recordId: leadId, from: [...OPEN_STAGES, 'won'], set: conversion(call), events }
      return changed(call, change, (given) => store.leads.convert(given), {})
    }),
  }
}

function stageChanged({ context }: WriteCall<unknown>, leadId: string, stage: LeadStage): EventRecord {
  return buildEventTemplate(leadEvents, 'lead.stage_changed', { leadId, stage }, context)
}

function conversion({ context }: WriteCall<unknown>): Conversion {
  const client = convertedClient(context)
  return {
    stage: 'won',
    client,
    clientEvents: [buildEventTemplate(clientEvents, 'client.created', { clientId: client.id }, context)],
  }
}
