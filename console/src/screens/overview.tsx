// Overview: who the caller is, what waits and why, what failed, and the limits that are used.
import type { CallerOut, StatusOut, UsageOut } from "../api/schema";
import { useResource } from "../api/resource";
import { useTitle } from "../app";
import { formatRole, ScreenHead } from "../components/frame";
import { Badge, DataTable, Fact, Facts, Figure, Section } from "../components/parts";
import { Loaded } from "../components/states";
import { formatAge, formatBytes, formatNumber, t, type TextKey } from "../i18n";
import { buildPath } from "../router";
import { caller, canAdminister, role } from "../session";
import { UsageChart } from "../components/usage_chart";

export function OverviewScreen() {
  useTitle(t("overview.title"));
  const own = caller.value;
  if (!own) return null;
  return (
    <>
      <ScreenHead title={t("overview.title")} />
      {canAdminister.value && <QueueSection />}
      {canAdminister.value && role.value === "admin" && <UsageSection />}
      <KeySection own={own} />
      <LimitsSection own={own} />
    </>
  );
}

function QueueSection() {
  const status = useResource<StatusOut>("/v1/status");
  const reload = (
    <div class="actions">
      <a class="button" href={buildPath(["jobs"])}>
        {t("overview.showJobs")}
      </a>
      <button type="button" class="button" onClick={status.reload}>
        {t("action.refresh")}
      </button>
    </div>
  );
  return (
    <Section title={t("overview.queue")} actions={reload}>
      <Loaded resource={status}>
        {({ jobs, workers, open_circuits }) => (
          <>
            <dl class="figures">
              <Figure label={t("overview.workers")} value={formatNumber(workers.alive)} tone={workers.alive ? undefined : "bad"} />
              <Figure label={t("overview.running")} value={formatNumber(jobs.running)} />
              <Figure label={t("overview.waiting")} value={formatNumber(jobs.waiting)} />
              <Figure label={t("overview.postponed")} value={formatNumber(jobs.postponed)} tone={jobs.postponed ? "warn" : undefined} />
              <Figure label={t("overview.failed")} value={formatNumber(jobs.failed_24h)} tone={jobs.failed_24h ? "bad" : undefined} />
            </dl>
            <Reasons status={{ jobs, workers, open_circuits }} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

/** Sentences that say why jobs wait or fail. */
function Reasons({ status: { jobs, workers, open_circuits } }: { status: StatusOut }) {
  const reasons: string[] = [];
  if (jobs.oldest_waiting_since) reasons.push(t("overview.oldest", { age: formatAge(jobs.oldest_waiting_since) }));
  if (workers.alive === 0) reasons.push(t("overview.noWorker"));
  if (workers.restarting) reasons.push(workers.restarting);
  for (const outage of workers.outages) reasons.push(t("overview.outage", { code: outage }));
  for (const endpoint of open_circuits) reasons.push(t("overview.circuit", { endpoint }));
  if (jobs.postponed > 0) reasons.push(t("overview.postponedReason"));
  if (workers.parser_confinement && workers.parser_confinement.level !== "full") {
    reasons.push(t("overview.confinement", { level: workers.parser_confinement.level }));
  }
  if (reasons.length === 0) return <p class="muted">{t("overview.calm")}</p>;
  return (
    <ul class="notices">
      {reasons.map((reason) => (
        <li key={reason}>{reason}</li>
      ))}
    </ul>
  );
}

function UsageSection() {
  const usage = useResource<UsageOut>("/v1/usage");
  return (
    <Section title={t("overview.usage")}>
      <Loaded resource={usage}>
        {({ storage, items, from, to }) => (
          <>
            <dl class="figures">
              <Figure label={t("overview.documents")} value={formatNumber(storage.documents)} />
              <Figure label={t("overview.chunks")} value={formatNumber(storage.chunks)} />
              <Figure label={t("overview.stored")} value={formatBytes(storage.stored_bytes)} />
            </dl>
            <UsageChart items={items} from={from} to={to} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

function KeySection({ own }: { own: CallerOut }) {
  const { key, tenant } = own;
  return (
    <Section title={t("overview.key")}>
      <Facts>
        <Fact term={t("overview.tenant")}>
          {tenant.name} <code class="muted">{tenant.id}</code>
        </Fact>
        <Fact term={t("overview.keyName")}>
          {key.name} {key.id && <code class="muted">{key.id}</code>}
        </Fact>
        <Fact term={t("overview.role")}>{role.value && formatRole(role.value)}</Fact>
        <Fact term={t("overview.may")}>{role.value && t(RIGHTS[role.value])}</Fact>
        {key.knowledge_bases && (
          <Fact term={t("overview.onlyKnowledgeBases")}>
            {key.knowledge_bases.map((name) => (
              <Badge key={name}>{name}</Badge>
            ))}
          </Fact>
        )}
        {key.user_id && <Fact term={t("overview.onlyUser")}>{key.user_id}</Fact>}
      </Facts>
    </Section>
  );
}

const RIGHTS = {
  operator: "rights.operator",
  admin: "rights.admin",
  writer: "rights.writer",
  reader: "rights.reader",
} as const satisfies Record<string, TextKey>;

const LIMIT_NAMES: Record<string, TextKey> = {
  agents: "limit.agents",
  api_keys: "limit.api_keys",
  batch_files: "limit.batch_files",
  chats: "limit.chats",
  chunks: "limit.chunks",
  concurrent_searches: "limit.concurrent_searches",
  documents: "limit.documents",
  event_streams: "limit.event_streams",
  file_batches: "limit.file_batches",
  files: "limit.files",
  knowledge_bases: "limit.knowledge_bases",
  prompt_versions: "limit.prompt_versions",
  searches_per_second: "limit.searches_per_second",
  sql_views: "limit.sql_views",
  stored_bytes: "limit.stored_bytes",
  stored_responses: "limit.stored_responses",
  upload_bytes: "limit.upload_bytes",
  webhooks: "limit.webhooks",
};

function formatLimit(name: string, value: number): string {
  return name.endsWith("_bytes") ? formatBytes(value) : formatNumber(value);
}

function LimitsSection({ own: { limits, usage } }: { own: CallerOut }) {
  const names = Object.keys(limits).sort((one, other) => Number(other in usage) - Number(one in usage));
  return (
    <Section title={t("overview.limits")}>
      <DataTable
        label={t("overview.limits")}
        head={
          <>
            <th scope="col">{t("overview.limit")}</th>
            <th scope="col" class="number">{t("overview.used")}</th>
            <th scope="col" class="number">{t("overview.allowed")}</th>
          </>
        }
      >
        {names.map((name) => {
          const used = usage[name];
          const label = LIMIT_NAMES[name];
          const isFull = used !== undefined && used >= (limits[name] ?? Infinity);
          return (
            <tr key={name}>
              <th scope="row">{label ? t(label) : <code>{name}</code>}</th>
              <td class={`number ${isFull ? "bad-text" : ""}`}>{used === undefined ? "–" : formatLimit(name, used)}</td>
              <td class="number">{formatLimit(name, limits[name]!)}</td>
            </tr>
          );
        })}
      </DataTable>
    </Section>
  );
}
