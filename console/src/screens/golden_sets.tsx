// Golden sets: queries whose relevant documents are known. A new one is made below the list.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request } from "../api/client";
import { useResource } from "../api/resource";
import type { GoldenSetList, GoldenSetOut } from "../api/schema";
import { useTitle } from "../app";
import { TextField } from "../components/fields";
import { ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { DataTable, Section, Time } from "../components/parts";
import { EmptyState, Loaded, NoPermission } from "../components/states";
import { formatNumber, t } from "../i18n";
import { buildPath, location, navigate } from "../router";
import { canEvaluate } from "../session";

export function GoldenSetsScreen() {
  useTitle(t("golden.title"));
  const path = canEvaluate.value ? "/v1/golden-sets" : null;
  const list = useResource<GoldenSetList>(path, { cursor: location.value.query.get("cursor") });
  if (!path) {
    return (
      <>
        <ScreenHead title={t("golden.title")} />
        <NoPermission>{t("golden.needsWriter")}</NoPermission>
      </>
    );
  }
  return (
    <>
      <ScreenHead title={t("golden.title")} note={t("golden.note")} />
      <Loaded resource={list}>
        {({ items, next_cursor }) =>
          items.length === 0 ? (
            <EmptyState title={t("golden.empty")} />
          ) : (
            <>
              <DataTable label={t("golden.title")} head={<Head />}>
                {items.map((item) => (
                  <Row key={item.id} item={item} />
                ))}
              </DataTable>
              <Pages parts={["golden-sets"]} nextCursor={next_cursor} />
            </>
          )
        }
      </Loaded>
      <CreateForm />
    </>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("column.name")}</th>
      <th scope="col" class="number">{t("golden.items")}</th>
      <th scope="col">{t("column.changed")}</th>
    </>
  );
}

function Row({ item }: { item: GoldenSetOut }) {
  return (
    <tr>
      <th scope="row">
        <a href={buildPath(["golden-sets", item.id])}>{item.name}</a>
        {item.description && <span class="sub">{item.description}</span>}
      </th>
      <td class="number">{formatNumber(item.item_count)}</td>
      <td>
        <Time value={item.updated_at} />
      </td>
    </tr>
  );
}

function CreateForm() {
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const action = useAction(async () => {
    const body = JSON.stringify({ name, ...(description ? { description } : {}) });
    const { data } = await request<GoldenSetOut>("/v1/golden-sets", { method: "POST", body });
    navigate(buildPath(["golden-sets", data.id]));
  });
  const create = (event: Event) => {
    event.preventDefault();
    void action.run();
  };
  return (
    <Section title={t("golden.new")}>
      <form class="line-form" onSubmit={create}>
        <TextField label={t("column.name")} value={name} change={setName} required />
        <TextField label={t("golden.description")} value={description} change={setDescription} />
        {action.error && <p class="bad-text" role="alert">{action.error.message}</p>}
        <div>
          <button type="submit" class="button primary" disabled={action.isBusy}>
            {t("golden.create")}
          </button>
        </div>
      </form>
    </Section>
  );
}
