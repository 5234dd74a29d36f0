// Jobs of the queue: what waits, runs or failed, and why. Failed jobs can be retried.
import { useState } from "preact/hooks";
import { ApiError, request } from "../api/client";
import { useResource } from "../api/resource";
import type { JobList, JobOut, JobsRetriedOut } from "../api/schema";
import { useTitle } from "../app";
import { ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { Badge, DataTable, type Tone } from "../components/parts";
import { EmptyState, Loaded, NoPermission } from "../components/states";
import { formatAge, formatNumber, t, tn, type TextKey } from "../i18n";
import { buildPath, location, navigate } from "../router";
import { caller, canAdminister, isOperator } from "../session";

const STATES: Record<JobOut["state"], [TextKey, Tone]> = {
  waiting: ["jobState.waiting", "neutral"],
  postponed: ["jobState.postponed", "warn"],
  scheduled: ["jobState.scheduled", "neutral"],
  running: ["jobState.running", "good"],
  failed: ["jobState.failed", "bad"],
};
const REASONS: Record<NonNullable<JobOut["waiting_for"]>, TextKey> = {
  worker: "waitingFor.worker",
  tenant_limit: "waitingFor.tenant_limit",
  rate_limit: "waitingFor.rate_limit",
  embedding_endpoint: "waitingFor.embedding_endpoint",
  vision_endpoint: "waitingFor.vision_endpoint",
  object_store: "waitingFor.object_store",
  retry: "waitingFor.retry",
};

export function JobsScreen() {
  useTitle(t("jobs.title"));
  const { query } = location.value;
  const state = query.get("state");
  const [message, setMessage] = useState("");
  const path = canAdminister.value ? "/v1/jobs" : null;
  const list = useResource<JobList>(path, { state, cursor: query.get("cursor") });
  if (!canAdminister.value) {
    return (
      <>
        <ScreenHead title={t("jobs.title")} />
        <NoPermission>{t("jobs.needsAdmin")}</NoPermission>
      </>
    );
  }
  const retry = async (job: JobOut | null) => {
    try {
      if (job) await request(`/v1/jobs/${encodeURIComponent(job.id)}/retry`, { method: "POST" });
      const many = job ? null : await request<JobsRetriedOut>("/v1/jobs/retry", { method: "POST" });
      setMessage(tn("jobs.retried", many ? many.data.retried : 1));
      list.reload();
    } catch (error) {
      setMessage(error instanceof ApiError ? error.message : String(error));
    }
  };
  return (
    <>
      <ScreenHead title={t("jobs.title")} actions={<Actions state={state} list={list} retryAll={() => retry(null)} />} />
      <p role="status" class={message ? "notice" : "hidden"}>
        {message}
      </p>
      <Loaded resource={list}>
        {({ items, next_cursor }) =>
          items.length === 0 ? (
            <EmptyState title={state ? t("jobs.noneInState") : t("jobs.empty")} />
          ) : (
            <>
              <DataTable label={t("jobs.title")} head={<Head />}>
                {items.map((job) => (
                  <Row key={job.id} job={job} retry={() => retry(job)} />
                ))}
              </DataTable>
              <Pages parts={["jobs"]} query={{ state }} nextCursor={next_cursor} />
            </>
          )
        }
      </Loaded>
    </>
  );
}

function Actions(props: { state: string | null; list: { data: JobList | null; reload: () => void }; retryAll: () => void }) {
  const hasFailed = props.list.data?.items.some(({ state }) => state === "failed");
  return (
    <>
      <label class="inline-field">
        <span>{t("jobs.state")}</span>
        <select
          value={props.state ?? ""}
          onChange={(event) => navigate(buildPath(["jobs"], { state: event.currentTarget.value }))}
        >
          <option value="">{t("documents.anyStatus")}</option>
          {Object.entries(STATES).map(([name, [key]]) => (
            <option key={name} value={name}>
              {t(key)}
            </option>
          ))}
        </select>
      </label>
      <button type="button" class="button" onClick={props.list.reload}>
        {t("action.refresh")}
      </button>
      {hasFailed && (
        <button type="button" class="button" onClick={props.retryAll}>
          {t("jobs.retryAll")}
        </button>
      )}
    </>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("jobs.kind")}</th>
      <th scope="col">{t("jobs.state")}</th>
      <th scope="col">{t("column.document")}</th>
      <th scope="col" class="number">{t("jobs.attempts")}</th>
      <th scope="col">{t("jobs.created")}</th>
      <th scope="col">{t("jobs.action")}</th>
    </>
  );
}

function Row({ job, retry }: { job: JobOut; retry: () => void }) {
  const [label, tone] = STATES[job.state];
  return (
    <tr>
      <th scope="row">
        {job.kind}
        {job.stage && <span class="sub">{t("document.stage", { stage: job.stage })}</span>}
      </th>
      <td class="wide">
        <Badge tone={tone}>{t(label)}</Badge>
        {job.waiting_for && <span class="sub">{t(REASONS[job.waiting_for])}</span>}
        {job.error && (
          <span class="sub bad-text">
            {job.error.message} <code>{job.error.code}</code>
          </span>
        )}
      </td>
      <td>
        <JobDocument job={job} />
        {isOperator.value && <JobTenant id={job.tenant} />}
      </td>
      <td class="number">
        {job.max_attempts === null
          ? formatNumber(job.attempts)
          : t("documents.progress", { done: job.attempts, total: job.max_attempts })}
      </td>
      <td>
        <time dateTime={job.created_at} title={job.created_at}>
          {formatAge(job.created_at)}
        </time>
      </td>
      <td>
        {job.state === "failed" && (
          <button type="button" class="button" onClick={retry} aria-label={t("jobs.retryOne", { id: job.id })}>
            {t("action.retry")}
          </button>
        )}
      </td>
    </tr>
  );
}

/** Link to the document, if it belongs to the caller's tenant. */
function JobDocument({ job }: { job: JobOut }) {
  if (!job.document) return <>–</>;
  if (!job.knowledge_base || job.tenant !== caller.value?.tenant.id) return <code>{job.document}</code>;
  return (
    <a href={buildPath(["knowledge-bases", job.knowledge_base, "documents", job.document])}>
      <code>{job.document}</code>
    </a>
  );
}

/** The tenant of a job, which only the operator needs; the system tenant has no screen. */
function JobTenant({ id }: { id: string }) {
  if (id === caller.value?.tenant.id) return <span class="sub">{t("jobs.system")}</span>;
  return (
    <span class="sub">
      {t("overview.tenant")}{" "}
      <a href={buildPath(["operator", "tenants", id])}>
        <code>{id}</code>
      </a>
    </span>
  );
}
