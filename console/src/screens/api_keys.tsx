// API keys of the tenant: create, rotate, revoke. A new key is shown once, and only in the memory of this screen.
import { useEffect, useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request } from "../api/client";
import { dropNulls } from "../api/json_schema";
import { useResource } from "../api/resource";
import type { ApiKeyList, ApiKeyOut, NewApiKeyOut } from "../api/schema";
import { useTitle } from "../app";
import { CopyButton } from "../components/copy_button";
import { ConfirmDialog } from "../components/dialog";
import { TextField } from "../components/fields";
import { formatRole, ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { Badge, DataTable, Time } from "../components/parts";
import { SettingsForm } from "../components/settings_form";
import { EmptyState, Loaded, NoPermission } from "../components/states";
import { formatDuration, t, tn, type TextKey } from "../i18n";
import { buildPath, location, navigate } from "../router";
import { caller, canAdminister, type Role } from "../session";

const TITLES: Record<string, TextKey> = {
  name: "column.name",
  role: "overview.role",
  knowledge_bases: "nav.knowledgeBases",
  user_id: "apiKeys.user",
  expires_at: "apiKeys.expires",
  quotas: "tenants.quotas",
};
const PATH = "/v1/api-keys";
const SECONDS_PER_HOUR = 3600;

type Choice = { kind: "rotate" | "revoke"; apiKey: ApiKeyOut };

export function ApiKeysScreen() {
  useTitle(t("apiKeys.title"));
  if (canAdminister.value) return <ApiKeys />;
  return (
    <>
      <ScreenHead title={t("apiKeys.title")} />
      <NoPermission>{t("apiKeys.needsAdmin")}</NoPermission>
    </>
  );
}

function ApiKeys() {
  const { query } = location.value;
  const [created, setCreated] = useState<NewApiKeyOut | null>(null);
  const [choice, setChoice] = useState<Choice | null>(null);
  const list = useResource<ApiKeyList>(PATH, { cursor: query.get("cursor") });
  const isNew = query.get("new") === "1";
  const show = (apiKey: NewApiKeyOut) => {
    setCreated(apiKey);
    list.reload();
  };
  const actions = !isNew && (
    <a class="button primary" href={buildPath(["api-keys"], { new: "1" })}>
      {t("apiKeys.new")}
    </a>
  );
  return (
    <>
      <ScreenHead title={t("apiKeys.title")} actions={actions} />
      {created && <CreatedKey apiKey={created} close={() => setCreated(null)} />}
      {isNew && (
        <SettingsForm<NewApiKeyOut>
          schemaName="ApiKeyCreate"
          initial={{}}
          method="POST"
          path={PATH}
          buildBody={dropNulls}
          label={t("settings.create")}
          titles={TITLES}
          done={({ data }) => {
            show(data);
            navigate(buildPath(["api-keys"]));
          }}
        />
      )}
      <Loaded resource={list}>
        {({ items, next_cursor: nextCursor }) =>
          items.length === 0 ? (
            <EmptyState title={t("apiKeys.empty")} />
          ) : (
            <>
              <DataTable label={t("apiKeys.title")} head={<Head />}>
                {items.map((apiKey) => (
                  <Row key={apiKey.id} apiKey={apiKey} choose={(kind) => setChoice({ kind, apiKey })} reload={list.reload} />
                ))}
              </DataTable>
              <Pages parts={["api-keys"]} nextCursor={nextCursor} />
            </>
          )
        }
      </Loaded>
      {choice?.kind === "rotate" && <RotateDialog apiKey={choice.apiKey} done={show} close={() => setChoice(null)} />}
      {choice?.kind === "revoke" && <RevokeDialog apiKey={choice.apiKey} done={list.reload} close={() => setChoice(null)} />}
    </>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("column.name")}</th>
      <th scope="col">{t("overview.role")}</th>
      <th scope="col">{t("apiKeys.restriction")}</th>
      <th scope="col">{t("apiKeys.lastUsed")}</th>
      <th scope="col">{t("apiKeys.expires")}</th>
      <th scope="col">{t("jobs.action")}</th>
    </>
  );
}

function Row(props: { apiKey: ApiKeyOut; choose: (kind: Choice["kind"]) => void; reload: () => void }) {
  const { apiKey, choose, reload } = props;
  const isOwn = apiKey.id === caller.value?.key.id;
  return (
    <tr>
      <th scope="row">
        {apiKey.name}
        {isOwn && <span class="sub">{t("overview.key")}</span>}
        <span class="sub">
          <code>{apiKey.hint}…</code>
        </span>
      </th>
      <td>{formatRole(apiKey.role as Role)}</td>
      <td>
        {apiKey.knowledge_bases && <span class="sub">{tn("apiKeys.knowledgeBases", apiKey.knowledge_bases.length)}</span>}
        {apiKey.user_id !== null && <span class="sub">{t("apiKeys.onlyUser", { user: apiKey.user_id })}</span>}
        {apiKey.knowledge_bases === null && apiKey.user_id === null && "–"}
      </td>
      <td>{apiKey.last_used_at ? <Time value={apiKey.last_used_at} /> : t("apiKeys.never")}</td>
      <td>
        {apiKey.expires_at ? <Time value={apiKey.expires_at} /> : t("apiKeys.never")}
        {apiKey.replaced_by && apiKey.expires_at && <Countdown until={apiKey.expires_at} end={reload} />}
      </td>
      <td>
        <div class="actions">
          <button type="button" class="button" onClick={() => choose("rotate")} aria-label={t("apiKeys.rotateOne", { name: apiKey.name })}>
            {t("apiKeys.rotate")}
          </button>
          <button type="button" class="button" onClick={() => choose("revoke")} aria-label={t("apiKeys.revokeOne", { name: apiKey.name })}>
            {t("apiKeys.revoke")}
          </button>
        </div>
      </td>
    </tr>
  );
}

/** Time that a rotated key is still valid, counted down. */
function Countdown({ until, end }: { until: string; end: () => void }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, Math.round((Date.parse(until) - now) / 1000));
  const isOver = seconds === 0;
  useEffect(() => {
    if (isOver) end();
  }, [isOver, end]);
  return (
    <span class="sub">
      <Badge tone="warn">{t("apiKeys.validFor", { time: formatDuration(seconds) })}</Badge>
    </span>
  );
}

function CreatedKey({ apiKey, close }: { apiKey: NewApiKeyOut; close: () => void }) {
  return (
    <div class="first-key">
      <p class="notice" role="status">
        {t("apiKeys.once", { name: apiKey.name })}
      </p>
      <pre class="code" tabIndex={0} data-testid="key">
        {apiKey.key}
      </pre>
      <div class="actions">
        <CopyButton text={apiKey.key} label={t("tenants.copyKey")} />
        <button type="button" class="button" onClick={close}>
          {t("action.close")}
        </button>
      </div>
    </div>
  );
}

function RotateDialog({ apiKey, done, close }: { apiKey: ApiKeyOut; done: (created: NewApiKeyOut) => void; close: () => void }) {
  const [hours, setHours] = useState("24");
  const action = useAction(async () => {
    const body = JSON.stringify({ overlap_seconds: Math.round(Number(hours) * SECONDS_PER_HOUR) });
    const reply = await request<NewApiKeyOut>(`${PATH}/${encodeURIComponent(apiKey.id)}/rotate`, { method: "POST", body });
    done(reply.data);
  });
  return (
    <ConfirmDialog title={t("apiKeys.rotateOne", { name: apiKey.name })} label={t("apiKeys.rotate")} action={action} close={close}>
      <p>{t("apiKeys.rotateHint")}</p>
      <TextField label={t("apiKeys.overlap")} type="number" required value={hours} change={setHours} />
    </ConfirmDialog>
  );
}

function RevokeDialog({ apiKey, done, close }: { apiKey: ApiKeyOut; done: () => void; close: () => void }) {
  const action = useAction(async () => {
    await request(`${PATH}/${encodeURIComponent(apiKey.id)}`, { method: "DELETE" });
    done();
  });
  return (
    <ConfirmDialog title={t("apiKeys.revokeOne", { name: apiKey.name })} label={t("apiKeys.revoke")} action={action} close={close}>
      <p>{t(apiKey.id === caller.value?.key.id ? "apiKeys.revokeOwn" : "apiKeys.revokeHint")}</p>
    </ConfirmDialog>
  );
}
