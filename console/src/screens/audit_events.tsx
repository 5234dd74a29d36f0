// Audit events of the tenant, newest first, with the filters of the API and a download of all of them.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import { requestBlob } from "../api/client";
import { useResource } from "../api/resource";
import type { AuditEventList, AuditEventOut } from "../api/schema";
import { useTitle } from "../app";
import { TextField } from "../components/fields";
import { ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { DataTable, Time } from "../components/parts";
import { saveFile } from "../components/save_file";
import { EmptyState, Loaded, NoPermission } from "../components/states";
import { t, type TextKey } from "../i18n";
import { buildPath, location, navigate, type Query } from "../router";
import { canAdminister } from "../session";

const FILTERS: Record<string, [TextKey, TextKey | null]> = {
  action: ["audit.action", "audit.actionHint"],
  actor: ["audit.actor", "audit.actorHint"],
  object_id: ["audit.object", null],
  from: ["audit.from", "audit.timeHint"],
  to: ["audit.to", "audit.timeHint"],
};
const PATH = "/v1/audit-events";
const SHOWN_IDS = 3;

export function AuditEventsScreen() {
  useTitle(t("audit.title"));
  if (canAdminister.value) return <AuditEvents />;
  return (
    <>
      <ScreenHead title={t("audit.title")} />
      <NoPermission>{t("audit.needsAdmin")}</NoPermission>
    </>
  );
}

function AuditEvents() {
  const { query } = location.value;
  const filters: Query = Object.fromEntries(Object.keys(FILTERS).map((name) => [name, query.get(name)]));
  const list = useResource<AuditEventList>(PATH, { ...filters, cursor: query.get("cursor") });
  const download = useAction(async () =>
    saveFile(await requestBlob(PATH, { query: { ...filters, format: "jsonl" } }), "audit-events.jsonl"),
  );
  const button = (
    <button type="button" class="button" disabled={download.isBusy} onClick={() => void download.run()}>
      {t("audit.download")}
    </button>
  );
  return (
    <>
      <ScreenHead title={t("audit.title")} note={t("audit.note")} actions={button} />
      {download.error && (
        <p class="notice bad" role="alert">
          {download.error.message}
        </p>
      )}
      <Filters key={JSON.stringify(filters)} filters={filters} />
      <Loaded resource={list}>
        {({ items, next_cursor: nextCursor }) =>
          items.length === 0 ? (
            <EmptyState title={t("audit.empty")} />
          ) : (
            <>
              <DataTable label={t("audit.title")} head={<Head />}>
                {items.map((event) => (
                  <Row key={event.id} event={event} />
                ))}
              </DataTable>
              <Pages parts={["audit-events"]} query={filters} nextCursor={nextCursor} />
            </>
          )
        }
      </Loaded>
    </>
  );
}

function Filters({ filters }: { filters: Query }) {
  const [draft, setDraft] = useState<Query>(filters);
  return (
    <form
      class="filter-fields"
      onSubmit={(event) => {
        event.preventDefault();
        navigate(buildPath(["audit-events"], draft));
      }}
    >
      {Object.entries(FILTERS).map(([name, [label, hint]]) => (
        <TextField
          key={name}
          label={t(label)}
          hint={hint ? t(hint) : undefined}
          value={String(draft[name] ?? "")}
          change={(value) => setDraft({ ...draft, [name]: value.trim() })}
        />
      ))}
      <div class="actions">
        <button type="submit" class="button primary">
          {t("audit.apply")}
        </button>
      </div>
    </form>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("audit.time")}</th>
      <th scope="col">{t("audit.action")}</th>
      <th scope="col">{t("audit.actor")}</th>
      <th scope="col">{t("audit.object")}</th>
      <th scope="col">{t("audit.details")}</th>
    </>
  );
}

function Row({ event }: { event: AuditEventOut }) {
  const { actor, object } = event;
  const counts = Object.entries(event.counts ?? {});
  return (
    <tr>
      <th scope="row">
        <Time value={event.created_at} />
      </th>
      <td>
        <code>{event.action}</code>
      </td>
      <td>
        {actor.name ?? actor.kind}
        {actor.id && (
          <span class="sub">
            <code>{actor.id}</code>
          </span>
        )}
        {event.address && <span class="sub">{event.address}</span>}
      </td>
      <td>
        {object.ids.slice(0, SHOWN_IDS).map((id) => (
          <span class="sub" key={id}>
            <code>{id}</code>
          </span>
        ))}
        {object.ids.length > SHOWN_IDS && <span class="sub">{t("audit.more", { count: object.ids.length - SHOWN_IDS })}</span>}
      </td>
      <td>
        {event.deletion && <a href={buildPath(["deletions", event.deletion])}>{t("receipt.title")}</a>}
        {counts.map(([name, count]) => (
          <span class="sub" key={name}>
            {name}: {count}
          </span>
        ))}
      </td>
    </tr>
  );
}
