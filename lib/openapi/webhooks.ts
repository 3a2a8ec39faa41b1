import type { JsonSchema } from '@valibot/to-json-schema'
import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { type EventType, eventSchemas } from '../resources/event-catalogue.ts'
import { EXAMPLE_CONTEXT, exampleOfType } from '../resources/example-data.ts'
import {
  type EventDefinition,
  type EventOwner,
  eventTypes,
  findEvent,
  schemaName,
} from '../resources/own-events.ts'
import type { Service } from '../service.ts'
import { type EventText, eventText, toEventRecord } from '../writes/event-envelope.ts'
import { responseRef } from './responses.ts'
import { describeSchema, type NamedSchema, type Schemas, schemaRef } from './schemas.ts'

/** The tag for all webhooks. */
export const WEBHOOK_TAG = 'Webhooks'

const envelopeId = field.id('evt', 'ID of the event, the same on every attempt. Use it to ignore duplicates.')

/**
 * Returns the schemas for all webhook bodies (see section 6 of the spec) and their `data`, for example
 * `ClientCreatedEvent` and `ClientCreatedEventData`. Without a name for the data, generators would number the types.
 *
 * @throws `TypeError` if we don't know the JSON Schema for one of the host's events
 */
export function buildEventComponents(owner: EventOwner): Readonly<Record<string, NamedSchema>> {
  const named = eventTypes(owner).flatMap((type) => {
    const { envelope, data } = schemasOf(owner, type)
    return [
      [envelopeName(type), envelope],
      [`${envelopeName(type)}Data`, data],
    ]
  })
  return Object.fromEntries(named)
}

/** The schema name of {@link buildWebhookEvent} in the document. */
export const WEBHOOK_EVENT_NAME = 'WebhookEvent'

/** Returns the schema for any webhook body. With `oneOf`, openapi-zod-client would generate code that throws. */
export function buildWebhookEvent(owner: EventOwner): JsonSchema {
  const refs = eventTypes(owner).map((type) => [type, schemaRef(envelopeName(type))] as const)
  return {
    description: 'Any event. `type` says which one.',
    anyOf: refs.map(([, ref]) => ref),
    discriminator: {
      propertyName: 'type',
      mapping: Object.fromEntries(refs.map(([type, { $ref }]) => [type, $ref])),
    },
  } as JsonSchema
}

function schemasOf(
  owner: EventOwner,
  type: string,
): { readonly envelope: NamedSchema; readonly data: NamedSchema } {
  const own = findEvent(owner, type)
  // Each event needs its own object, because schemas are named by identity.
  const data = own ? v.object({}) : eventSchemas[type as EventType]
  const schema = v.object({
    id: envelopeId,
    type: v.literal(type),
    createdAt: field.timestamp('Time at which the event occurred.'),
    data,
  })
  const example = exampleOfType(owner, type)
  const { body } = toEventRecord(EXAMPLE_CONTEXT.ids('evt'), type, example, EXAMPLE_CONTEXT.now)
  const envelope = JSON.parse(body)
  const json = own && describeSchema(own.data, 'output', `event '${type}'`)
  return { envelope: { schema, example: envelope }, data: { schema: data, example: envelope.data, json } }
}

/** Returns `webhooks` with every event type that the service sends (see section 6 of the spec). */
export function buildWebhooks(service: Service, schemas: Schemas): Record<string, object> {
  return Object.fromEntries(
    eventTypes(service).map((type) => [type, { post: buildWebhook(type, service, schemas) }]),
  )
}

function buildWebhook(type: string, service: Service, schemas: Schemas): object {
  const name = envelopeName(type)
  const own = findEvent(service, type)
  const [eventId, ...others] = Object.keys(webhookParameters(service.headerPrefix)).map((parameter) => ({
    $ref: `#/components/parameters/${parameter}`,
  }))
  return {
    operationId: `on${schemaName(type)}`,
    tags: [WEBHOOK_TAG],
    ...(own ? ownText(own) : eventText(eventSchemas[type as EventType])),
    // Subscribers authenticate the service by the signature, not a bearer token.
    security: [],
    parameters: [eventId, eventTypeParameter(type, service.headerPrefix), ...others],
    requestBody: {
      required: true,
      content: { 'application/json': { schema: schemaRef(name), example: schemas.exampleOf(name) } },
    },
    responses: RESPONSES,
  }
}

/** Returns the webhook for any event. It goes in `components.pathItems` because linters reject unused schemas. */
export function buildAnyWebhook({ exampleOf }: Schemas): object {
  const example = exampleOf(envelopeName('client.created'))
  return {
    operationId: 'onWebhookEvent',
    tags: [WEBHOOK_TAG],
    summary: 'Any event',
    description: 'For endpoints that receive all event types.',
    security: [],
    requestBody: {
      required: true,
      content: { 'application/json': { schema: schemaRef(WEBHOOK_EVENT_NAME), example } },
    },
    responses: RESPONSES,
  }
}

const RESPONSES = {
  '2XX': responseRef('WebhookReceived'),
  410: responseRef('WebhookGone'),
  default: responseRef('WebhookRetried'),
}

function envelopeName(type: string): string {
  return `${schemaName(type)}Event`
}

/** Uses the description's first sentence as the title. */
function ownText({ description }: EventDefinition): EventText {
  const [sentence = ''] = description.trim().split(/(?<=[.!?])\s/, 1)
  return { summary: sentence.replace(/\.$/, ''), description }
}

// --- Headers ---

/** Maximum signature header length in characters. Two signatures (current and previous secret) take 148. */
const SIGNATURE_MAX = 256

/** Returns the `components.parameters` that all webhooks share. */
export function webhookParameters(headerPrefix: string): Record<string, object> {
  return {
    EventId: {
      ...requiredHeader(`${headerPrefix}-Event-Id`),
      description: '`id` of the event, the same on every attempt.',
      schema: { type: 'string', maxLength: 64 },
      example: v.getExamples(envelopeId)[0],
    },
    Signature: {
      ...requiredHeader(`${headerPrefix}-Signature`),
      description:
        '`t` is the time of the attempt in Unix seconds; each `v1` is an HMAC-SHA256 of `<t>.<raw body>` in hex. There are two while a ' +
        'signing secret is being rotated.',
      schema: {
        type: 'string',
        maxLength: SIGNATURE_MAX,
        pattern: '^t=[0-9]+,v1=[0-9a-f]{64}(,v1=[0-9a-f]{64})*$',
      },
      example: `t=1773480413,v1=${'5257a869e7ecebed'.repeat(4)}`,
    },
    StandardId: {
      ...standardHeader('webhook-id', '`id` of the event.'),
      schema: { type: 'string', maxLength: 64 },
      example: v.getExamples(envelopeId)[0],
    },
    StandardTimestamp: {
      ...standardHeader('webhook-timestamp', 'Time of the attempt in Unix seconds.'),
      schema: { type: 'string', maxLength: 20, pattern: '^[0-9]+$' },
      example: '1773480413',
    },
    StandardSignature: {
      ...standardHeader(
        'webhook-signature',
        'Each `v1` is an HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<raw body>` in base64. The key is the part of the signing ' +
          'secret after `whsec_`, decoded from base64.',
      ),
      schema: {
        type: 'string',
        maxLength: SIGNATURE_MAX,
        pattern: '^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)*$',
      },
      example: `v1,${'UleoaefOy+1S'.repeat(4).slice(0, 43)}=`,
    },
  }
}

function standardHeader(name: string, description: string): object {
  return {
    name,
    in: 'header',
    required: false,
    description: `${description} Only sent to endpoints with Standard Webhooks headers.`,
  }
}

function eventTypeParameter(type: string, headerPrefix: string): object {
  return {
    ...requiredHeader(`${headerPrefix}-Event-Type`),
    description: '`type` of the event.',
    schema: { type: 'string', maxLength: type.length, const: type },
    example: type,
  }
}

function requiredHeader(name: string): { name: string; in: string; required: true } {
  return { name, in: 'header', required: true }
}

// --- Responses ---

/** A subscriber's `components.responses`. */
export const webhookResponses: Record<string, object> = {
  WebhookReceived: {
    description: 'Received. Respond within 10 seconds and process the event afterwards.',
  },
  WebhookGone: {
    description: 'The endpoint is gone. The event is not retried, and the endpoint is disabled.',
  },
  WebhookRetried: {
    description:
      'Any other response, including redirects, or none within 10 seconds. Retried after 30, 60, 120 and 240 seconds, up to 5 ' +
      'attempts. `Retry-After` can extend these delays.',
  },
}
