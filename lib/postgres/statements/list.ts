import type { Admission, AdmissionRequest, AdmittedPage } from '../../access/admission.ts'
import type { RecordDatabase } from '../connection/database.ts'
import { ADMISSION_ARGUMENTS, type AdmissionValues, admissionValues, parseAdmission } from './admission.ts'
import { ask, defineStatement, type Statement } from './statement.ts'

// A single statement answers a list: it judges the request, and joins the stored representations of the page to one text.

/** The statements of one resource's list. */
export interface ListStatements {
  /** Judges the key, both rate limits and the scope. */
  readonly limited: Statement<AdmissionValues & Limit, 'admission' | 'page', 'page'>
  /** Judges the key and the scope; no token is taken. */
  readonly unlimited: Statement<KeyValues & Limit, KeyColumn | 'page', 'page'>
  /** Reads the page of an organization. */
  readonly page: Statement<{ readonly organizationId: string } & Limit, 'page', 'page'>
}

interface Limit {
  readonly limit: number
}

type KeyValues = Pick<AdmissionValues, 'keyDigest' | 'scope'>
type KeyColumn = 'organizationId' | 'keyId' | 'hasScope' | 'isStale'

/**
 * Builds the statements of a list.
 *
 * @param representation an SQL expression for the JSON text of a row; the row is called `record`
 */
export function defineList(table: string, representation = 'record.representation'): ListStatements {
  // PostgreSQL plans a statement anew for every request while the bound values promise a cheaper plan, and planning takes
  // longer than reading the page. The subquery hides the limit from the estimate. The constant 200 is the longest page; without
  // the constant, the estimate would be a tenth of the table.
  const pageOf = (organizationId: string, condition = 'true'): string => `
    select '[' || coalesce(pg_catalog.string_agg(newest.representation, ','), '') || ']' as page
    from (
      select ${representation} as representation
      from (
        select * from ${table}
        where organization_id = ${organizationId} and ${condition}
        order by id desc
        limit 200
      ) as record
      order by record.id desc
      limit (select @limit::int)
    ) as newest`
  return {
    limited: defineStatement({
      answer: { admission: 'verdict.admission', page: 'verdict.admitted_page' },
      bytes: ['page'],
      from: `
        from (
          select case when caller.organization_id is not null then (${pageOf('caller.organization_id')}) end as page
          from (values (business_api.likely_organization(${ADMISSION_ARGUMENTS}))) as caller (organization_id)
        ) as candidate,
        lateral business_api.admit(${ADMISSION_ARGUMENTS}, candidate.page) as verdict`,
    }),
    unlimited: defineStatement({
      answer: {
        organizationId: 'key.organization_id',
        keyId: 'key.id',
        hasScope: '(@scope::text = any (key.scopes))::text',
        isStale: `(
          key.last_used_at is null
          or key.last_used_at < pg_catalog.clock_timestamp() - interval '1 minute'
        )::text`,
        page: 'newest.page',
      },
      bytes: ['page'],
      from: `
        from (values (1)) as always (one)
        left join business_api.api_keys key
          on key.digest = @keyDigest::text
          and (key.revoked_at is null or key.revoked_at > pg_catalog.clock_timestamp())
          and (key.expires_at is null or key.expires_at > pg_catalog.clock_timestamp())
        left join lateral (
          ${pageOf('key.organization_id', '@scope::text = any (key.scopes)')}
        ) as newest on true`,
    }),
    page: defineStatement({
      answer: { page: 'newest.page' },
      bytes: ['page'],
      from: `from (${pageOf('@organizationId::text')}) as newest`,
    }),
  }
}

/** Judges a request and, if the request is admitted, returns the page of the caller's organization. */
export async function admitToPage<Representation>(
  database: RecordDatabase,
  statements: ListStatements,
  request: AdmissionRequest,
  limit: number,
): Promise<AdmittedPage<Representation>> {
  const { keyDigest, scope, organizationHint: share = null } = request
  if (request.rateLimits === null) {
    const answer = await ask(database, share, statements.unlimited, { keyDigest, scope, limit })
    const admission = admissionOf(answer)
    return { admission, page: admission.outcome === 'admitted' ? answer.page : null }
  }
  const answer = await ask(database, share, statements.limited, { ...admissionValues(request), limit })
  const admission = parseAdmission(answer.admission)
  if (admission.outcome !== 'admitted') return { admission, page: null }
  if (answer.page !== null) return { admission, page: answer.page }
  // The look-up expected a refusal and read no page; then a bucket had a token again, and the request was admitted.
  const { organizationId } = admission.caller
  const { page } = await ask(database, organizationId, statements.page, { organizationId, limit })
  return { admission, page }
}

function admissionOf({
  organizationId,
  keyId,
  hasScope,
  isStale,
}: Readonly<Record<KeyColumn, string | null>>): Admission {
  if (organizationId === null || keyId === null) return { outcome: 'unauthenticated' }
  return {
    outcome: hasScope === 'true' ? 'admitted' : 'forbidden',
    caller: { organizationId, keyId },
    rateLimit: null,
    lastUseIsStale: isStale === 'true',
  }
}
