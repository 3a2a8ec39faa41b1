import type { Fragment, ISql as Sql } from 'postgres'
import type { Admission, AdmissionRequest, AdmittedPage } from '../../access/admission.ts'
import type { RecordDatabase } from '../connection/database.ts'

/** What every function that judges a request takes first: see sql/0010-rate-limits.sql. */
function admissionArguments(sql: Sql, { keyDigest, scope, rateLimits }: AdmissionRequest): Fragment {
  return sql`
    ${keyDigest}::text, ${scope}::text,
    ${rateLimits?.key.perSecond ?? null}::float8, ${rateLimits?.key.burst ?? null}::int,
    ${rateLimits?.organization.perSecond ?? null}::float8, ${rateLimits?.organization.burst ?? null}::int`
}

/** Judges a request and takes its tokens. */
export async function admit(database: RecordDatabase, request: AdmissionRequest): Promise<Admission> {
  const [admission] = await database.row(
    (sql, answerTag) =>
      sql`select admission, ${answerTag} from business_api.admit(${admissionArguments(sql, request)})`,
  )
  return parseAdmission(admission)
}

/**
 * Judges a request and, if admitted, gives the caller's page: one statement. The page is
 * the stored representations, joined by the database.
 *
 * @param rows selects the `representation` of the newest `limit` rows of organization `caller.organization_id`
 */
export async function admitToPage<Item>(
  database: RecordDatabase,
  request: AdmissionRequest,
  rows: (sql: Sql) => Fragment,
): Promise<AdmittedPage<Item>> {
  const [verdict, page] = await database.row(
    (sql, answerTag) => sql`
      select verdict.admission, verdict.admitted_page, ${answerTag}
      from (
        select case when caller.organization_id is not null then (${pageOf(sql, rows)}) end as page
        from (values (business_api.likely_organization(${admissionArguments(sql, request)}))) as caller (organization_id)
      ) as candidate,
      lateral business_api.admit(${admissionArguments(sql, request)}, candidate.page) as verdict`,
  )
  const admission = parseAdmission(verdict)
  if (admission.outcome !== 'admitted') return { admission, page: null }
  return { admission, page: page ?? (await readPage(database, admission.caller.organizationId, rows)) }
}

/** A request that looked as if it would be refused, and was admitted as a bucket had filled up again meanwhile. */
async function readPage(
  database: RecordDatabase,
  organizationId: string,
  rows: (sql: Sql) => Fragment,
): Promise<string | null> {
  const [page] = await database.row(
    (sql, answerTag) => sql`
      select (${pageOf(sql, rows)}), ${answerTag} from (values (${organizationId}::text)) as caller (organization_id)`,
  )
  return page ?? null
}

function pageOf(sql: Sql, rows: (sql: Sql) => Fragment): Fragment {
  return sql`
    select '[' || coalesce(pg_catalog.string_agg(representation, ','), '') || ']' from (${rows(sql)}) as newest`
}

/**
 * The newest rows of the caller's organization, to be limited further. The constant is the longest page there is; with
 * the limit as the only bound, PostgreSQL takes a tenth of the table for it and plans every list anew to know better,
 * which takes longer than the list.
 */
export function newest(sql: Sql, table: string): Fragment {
  return sql`(
    select * from ${sql.unsafe(table)}
    where organization_id = caller.organization_id
    order by id desc
    limit 200
  )`
}

function parseAdmission(text: string | null | undefined): Admission {
  return JSON.parse(text ?? 'null') as Admission
}
