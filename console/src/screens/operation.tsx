// Health of the service: dependencies, workers, the queue, and the search indexes of shared knowledge bases.
import { useResource } from "../api/resource";
import type { HealthOut, KnowledgeBaseList, KnowledgeBaseOut, StatusOut } from "../api/schema";
import { useTitle } from "../app";
import { ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { Badge, DataTable, Fact, Facts, Section } from "../components/parts";
import { QueueFigures } from "../components/queue_figures";
import { EmptyState, Loaded } from "../components/states";
import { formatBytes, formatNumber, t } from "../i18n";
import { buildPath, location } from "../router";
import { IndexState } from "./knowledge_bases";

// The reply has this status, and says which dependency is missing.
const UNAVAILABLE = 503;

export function OperationScreen() {
  useTitle(t("operation.title"));
  const status = useResource<StatusOut>("/v1/status");
  const health = useResource<HealthOut>("/readyz", {}, { dataStatus: UNAVAILABLE });
  const reload = () => {
    status.reload();
    health.reload();
  };
  return (
    <>
      <ScreenHead
        title={t("operation.title")}
        actions={
          <>
            <a class="button" href={buildPath(["operator", "tenants"])}>
              {t("tenants.title")}
            </a>
            <button type="button" class="button" onClick={reload}>
              {t("action.refresh")}
            </button>
          </>
        }
      />
      <Section title={t("operation.health")}>
        <Loaded resource={health}>{(data) => <Health health={data} />}</Loaded>
      </Section>
      <Loaded resource={status}>
        {(data) => (
          <>
            <Section title={t("operation.queue")} actions={<JobLinks />}>
              <QueueFigures status={data} />
            </Section>
            <Section title={t("overview.workers")}>
              <Workers status={data} />
            </Section>
          </>
        )}
      </Loaded>
      <IndexSection />
    </>
  );
}

function Health({ health: { status, checks = {} } }: { health: HealthOut }) {
  return (
    <>
      <Facts>
        <Fact term={t("operation.state")}>
          <Badge tone={status === "ok" ? "good" : status === "degraded" ? "warn" : "bad"}>{status}</Badge>
        </Fact>
        {Object.entries(checks).map(([name, state]) => (
          <Fact key={name} term={name}>
            <Badge tone={state === "ok" ? "good" : "bad"}>{state}</Badge>
          </Fact>
        ))}
      </Facts>
      <p class="muted small">{t("operation.doctor")}</p>
    </>
  );
}

function JobLinks() {
  return (
    <div class="actions">
      <a class="button" href={buildPath(["jobs"], { state: "failed" })}>
        {t("operation.failedJobs")}
      </a>
      <a class="button" href={buildPath(["jobs"])}>
        {t("overview.showJobs")}
      </a>
    </div>
  );
}

function Workers({ status: { workers, open_circuits: circuits } }: { status: StatusOut }) {
  const confinement = workers.parser_confinement;
  return (
    <Facts>
      <Fact term={t("operation.alive")}>{formatNumber(workers.alive)}</Fact>
      <Fact term={t("operation.outages")}>{workers.outages.join(", ") || t("operation.none")}</Fact>
      <Fact term={t("operation.circuits")}>{circuits.join(", ") || t("operation.none")}</Fact>
      <Fact term={t("operation.restarting")}>{workers.restarting ?? t("operation.none")}</Fact>
      <Fact term={t("operation.confinement")}>
        {confinement ? <Badge tone={confinement.level === "full" ? "good" : "warn"}>{confinement.level}</Badge> : "–"}
        {confinement?.detail && <span class="sub">{confinement.detail}</span>}
      </Fact>
    </Facts>
  );
}

/** The API shows the operator the knowledge bases of the system tenant; those of tenants are seen by their admins. */
function IndexSection() {
  const list = useResource<KnowledgeBaseList>("/v1/knowledge-bases", { cursor: location.value.query.get("cursor") });
  return (
    <Section title={t("operation.indexes")}>
      <p class="muted small">{t("operation.indexesNote")}</p>
      <Loaded resource={list}>
        {({ items, next_cursor: nextCursor }) =>
          items.length === 0 ? (
            <EmptyState title={t("operation.noIndex")} />
          ) : (
            <>
              <DataTable label={t("operation.indexes")} head={<IndexHead />}>
                {items.map((item) => (
                  <IndexRow key={item.id} item={item} />
                ))}
              </DataTable>
              <Pages parts={["operator"]} nextCursor={nextCursor} />
            </>
          )
        }
      </Loaded>
    </Section>
  );
}

function IndexHead() {
  return (
    <>
      <th scope="col">{t("column.name")}</th>
      <th scope="col">{t("column.index")}</th>
      <th scope="col">{t("index.reason")}</th>
      <th scope="col" class="number">{t("column.chunks")}</th>
      <th scope="col" class="number">{t("column.size")}</th>
    </>
  );
}

function IndexRow({ item }: { item: KnowledgeBaseOut }) {
  return (
    <tr>
      <th scope="row">
        <a href={buildPath(["knowledge-bases", item.name, "index"])}>{item.name}</a>
      </th>
      <td>
        <IndexState item={item} />
      </td>
      <td class="wide">{item.index.reason ?? "–"}</td>
      <td class="number">{formatNumber(item.chunk_count)}</td>
      <td class="number">{formatBytes(item.index.size_bytes)}</td>
    </tr>
  );
}
