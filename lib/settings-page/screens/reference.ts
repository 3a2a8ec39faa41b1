import { BusinessApiError, NOT_FOUND } from '../../base/errors.ts'
import type { Context, Download, ScreenPage } from '../context.ts'
import { type Content, html } from '../html.ts'
import type { Operation, Reference, Schema } from '../reference.ts'
import { buttonLink, codeBlock } from '../views/elements.ts'
import { inlineProse, prose } from '../views/prose.ts'
import { type Column, table } from '../views/table.ts'
import { callCode, type ExampleCall } from './call-code.ts'
import { verificationCode } from './verification-code.ts'

/** `/reference`: the API's operations, from the OpenAPI document. */
export function show(context: Context): ScreenPage {
  const { t, link } = context
  const { operations, description } = find(context)
  const content = html`${operationTable(context, t`Operations`, operations)}
<p>${buttonLink(link('/reference/webhooks'), t`Webhooks`)}</p>
${prose(description)}`
  return {
    title: t`Reference`,
    content,
    acts: buttonLink(link('/reference/openapi.json'), t`Download openapi.json`),
  }
}

/** `/reference/webhooks`: the event types and how to verify a webhook. */
export function showWebhooks(context: Context): ScreenPage {
  const { t, link, settings } = context
  const content = html`<h2>${t`Verify webhooks`}</h2>
${verificationCode(t, settings.service.headerPrefix)}
<h2>${t`Event types`}</h2>
${operationTable(context, t`Event types`, find(context).webhooks)}`
  return { title: t`Webhooks`, content, up: { href: link('/reference'), text: t`Reference` } }
}

/** `/reference/:id`: an operation or event type. */
export function showOperation(context: Context): ScreenPage {
  const { t, link, params } = context
  const reference = find(context)
  const operation = [...reference.operations, ...reference.webhooks].find(
    ({ operationId }) => operationId === params.id,
  )
  if (!operation)
    throw new BusinessApiError(NOT_FOUND, 'Cannot show an operation because no such operation exists')
  const { method, path, summary, description, body, answers } = operation
  const isWebhook = method === null
  const content = html`<p><code>${isWebhook ? path : `${method} ${path}`}</code></p>
${prose(description)}
${!isWebhook && callCode(t, callOf(operation, reference), 'YOUR_API_KEY')}
${parameterTable(context, operation)}
${body?.schema && html`<h2>${isWebhook ? t`Payload` : t`Request body`}</h2>${fieldTable(context, fieldsOf(body.schema, reference))}`}
${isWebhook && body && html`<h2>${t`Example`}</h2>${codeBlock(t, JSON.stringify(body.example, null, 2), t`Example`)}`}
<h2>${t`Responses`}</h2>
${answers.map(([status, answer]) => {
  const media = answer.content?.['application/json']
  const title = html`<strong>${status === 'default' ? t`Other` : status}</strong>`
  if (status !== '200' || !media)
    return html`<p>${title} ${inlineProse(answer.description ?? '')}</p>
`
  return html`<p>${title} ${inlineProse(answer.description ?? '')}</p>${media.example !== undefined && codeBlock(t, JSON.stringify(media.example, null, 2), t`Response`)}
<details><summary>${t`Response fields`}</summary>${media.schema && fieldTable(context, fieldsOf(media.schema, reference))}</details>`
})}`
  const up = isWebhook
    ? { href: link('/reference/webhooks'), text: t`Webhooks` }
    : { href: link('/reference'), text: t`Reference` }
  return { title: summary, content, up }
}

/** `/reference/openapi.json`. */
export function download(context: Context): Download {
  return { fileName: 'openapi.json', type: 'application/json; charset=utf-8', text: find(context).text }
}

function find({ reference }: Context): Reference {
  if (reference !== null) return reference()
  throw new BusinessApiError(NOT_FOUND, "Cannot show the reference because option 'api' is not set")
}

function operationTable({ t, link }: Context, caption: string, operations: readonly Operation[]): Content {
  const isWebhooks = operations[0]?.method === null
  const name: Column<Operation> = {
    head: isWebhooks ? t`Type` : t`Operation`,
    cell: ({ operationId, method, path }) =>
      html`<a href="${link(`/reference/${operationId}`)}"><code>${method === null ? path : `${method} ${path}`}</code></a>`,
  }
  const summary: Column<Operation> = { head: t`Summary`, cell: (operation) => operation.summary }
  const scope: Column<Operation> = {
    head: t`Permission`,
    cell: (operation) => html`<code>${operation.scope}</code>`,
  }
  return table(caption, isWebhooks ? [name, summary] : [name, summary, scope], operations)
}

function parameterTable({ t }: Context, { parameters, method }: Operation): Content {
  if (parameters.length === 0) return null
  return html`<h2>${method === null ? t`Headers` : t`Parameters`}</h2>
${table(
  t`Parameters`,
  [
    { head: t`Name`, cell: ({ name }) => html`<code>${name}</code>` },
    { head: t`In`, cell: (parameter) => parameter.in },
    { head: t`Description`, cell: ({ description }) => inlineProse(description ?? '') },
  ],
  parameters,
)}`
}

function fieldTable({ t }: Context, fields: readonly SchemaField[]): Content {
  return table(
    t`Fields`,
    [
      { head: t`Field`, cell: ({ path }) => html`<code>${path}</code>` },
      { head: t`Type`, cell: ({ type, isRequired }) => (isRequired ? type : t`${type}, optional`) },
      { head: t`Description`, cell: ({ description }) => inlineProse(description) },
    ],
    fields,
  )
}

function callOf({ method, path, parameters, body }: Operation, { server }: Reference): ExampleCall {
  return {
    method: method ?? 'GET',
    url: `${server}${path}`,
    body: body ? JSON.stringify(body.example ?? {}) : null,
    headers: parameters
      .filter(({ name }) => name === 'Idempotency-Key')
      .map(({ name }) => [name, 'a-unique-key'] as const),
  }
}

// --- The fields of a schema ---

/** A field of a JSON value. The path has the form `business.name` or `data[].id`. */
interface SchemaField {
  readonly path: string
  readonly type: string
  readonly description: string
  readonly isRequired: boolean
}

/** Maximum depth, because a schema may contain itself. No real schema is this deep. */
const DEPTH_MAX = 6

/** Returns a schema's fields, including those of nested objects and arrays. */
function fieldsOf(schema: Schema, reference: Reference, path = '', depth = 0): readonly SchemaField[] {
  const { properties, items, required = [] } = withoutNull(schema, reference)
  if (depth > DEPTH_MAX) return []
  if (items) return fieldsOf(items, reference, `${path}[]`, depth + 1)
  return Object.entries(properties ?? {}).flatMap(([name, property]) => {
    const own = path === '' ? name : `${path}.${name}`
    const field = {
      path: own,
      type: typeOf(property, reference),
      description: property.description ?? withoutNull(property, reference).description ?? '',
      isRequired: required.includes(name),
    }
    return [field, ...fieldsOf(property, reference, own, depth + 1)]
  })
}

/** Resolves a schema. For a nullable schema, returns the part that isn't null. */
function withoutNull(schema: Schema, reference: Reference): Schema {
  const resolved = reference.resolve(schema)
  const value = resolved.anyOf?.map((each) => reference.resolve(each)).find(({ type }) => type !== 'null')
  return value ?? resolved
}

function typeOf(schema: Schema, reference: Reference): string {
  const resolved = reference.resolve(schema)
  if (resolved.anyOf) return resolved.anyOf.map((each) => typeOf(each, reference)).join(' or ')
  const { type, format, const: only, enum: all } = resolved
  if (only !== undefined) return JSON.stringify(only)
  if (all) return all.map((value) => JSON.stringify(value)).join(' or ')
  const name = typeof type === 'string' ? type : (type?.join(' or ') ?? 'any')
  return `${name}${format === undefined ? '' : `, ${format}`}${boundsOf(resolved)}`
}

function boundsOf({ minLength, maxLength }: Schema): string {
  if (maxLength === undefined) return ''
  return minLength === undefined
    ? `, up to ${maxLength} characters`
    : `, ${minLength} to ${maxLength} characters`
}
