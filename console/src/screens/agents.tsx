// Agents of a platform that are bound to knowledge bases.
import { useState } from "preact/hooks";
import { useResource } from "../api/resource";
import type { AgentBindingList, AgentBindingOut, KnowledgeBaseList } from "../api/schema";
import { useTitle } from "../app";
import { TextField } from "../components/fields";
import { ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { DataTable, Section, Time } from "../components/parts";
import { EmptyState, Loaded, NoPermission } from "../components/states";
import { t } from "../i18n";
import { buildPath, location, navigate } from "../router";
import { canAdminister } from "../session";

export function AgentsScreen() {
  useTitle(t("agents.title"));
  const path = canAdminister.value ? "/v1/agents" : null;
  const list = useResource<AgentBindingList>(path, { cursor: location.value.query.get("cursor") });
  const bases = useResource<KnowledgeBaseList>(path && "/v1/knowledge-bases", { limit: 200 });
  const names = new Map(bases.data?.items.map(({ id, name }) => [id, name]));
  if (!path) {
    return (
      <>
        <ScreenHead title={t("agents.title")} />
        <NoPermission>{t("agents.needsAdmin")}</NoPermission>
        <OpenForm />
      </>
    );
  }
  return (
    <>
      <ScreenHead title={t("agents.title")} note={t("agents.note")} />
      <Loaded resource={list}>
        {({ items, next_cursor }) =>
          items.length === 0 ? (
            <EmptyState title={t("agents.empty")} />
          ) : (
            <>
              <DataTable label={t("agents.title")} head={<Head />}>
                {items.map((item) => (
                  <Row key={item.id} item={item} names={names} />
                ))}
              </DataTable>
              <Pages parts={["agents"]} nextCursor={next_cursor} />
            </>
          )
        }
      </Loaded>
      <OpenForm />
    </>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("agents.agent")}</th>
      <th scope="col">{t("knowledgeBases.title")}</th>
      <th scope="col">{t("column.strategy")}</th>
      <th scope="col">{t("column.changed")}</th>
    </>
  );
}

function Row({ item, names }: { item: AgentBindingOut; names: Map<string, string> }) {
  return (
    <tr>
      <th scope="row">
        <a href={buildPath(["agents", item.agent_id])}>{item.agent_id}</a>
      </th>
      <td class="wide">{item.knowledge_bases.map((id) => names.get(id) ?? id).join(", ") || "–"}</td>
      <td>{item.strategy ?? "–"}</td>
      <td>
        <Time value={item.updated_at} />
      </td>
    </tr>
  );
}

/** Open an agent by its id on its platform: its binding if it has one, else the form of a new one. */
function OpenForm() {
  const [id, setId] = useState("");
  const open = (event: Event) => {
    event.preventDefault();
    if (id) navigate(buildPath(["agents", id]));
  };
  return (
    <Section title={t("agents.open")}>
      <form class="line-form" onSubmit={open}>
        <TextField label={t("agents.id")} hint={t("agents.idHint")} value={id} change={setId} required />
        <div>
          <button type="submit" class="button">
            {t("agents.openButton")}
          </button>
        </div>
      </form>
    </Section>
  );
}
