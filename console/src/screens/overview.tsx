// Overview: who the caller is, what waits and why, what failed, and the limits that are used.
import type { CallerOut, StatusOut, UsageOut } from "../api/schema";
import { useResource } from "../api/resource";
import { useTitle } from "../app";
import { formatRole, ScreenHead } from "../components/frame";
import { formatLimit, formatLimitName } from "../components/limit_names";
import { Badge, DataTable, Fact, Facts, Figure, Section } from "../components/parts";
import { QueueFigures } from "../components/queue_figures";
import { Loaded } from "../components/states";
import { formatBytes, formatNumber, t, type TextKey } from "../i18n";
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
        {(data) => <QueueFigures status={data} />}
      </Loaded>
    </Section>
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
          const isFull = used !== undefined && used >= (limits[name] ?? Infinity);
          return (
            <tr key={name}>
              <th scope="row">{formatLimitName(name)}</th>
              <td class={`number ${isFull ? "bad-text" : ""}`}>{used === undefined ? "–" : formatLimit(name, used)}</td>
              <td class="number">{formatLimit(name, limits[name]!)}</td>
            </tr>
          );
        })}
      </DataTable>
    </Section>
  );
}
