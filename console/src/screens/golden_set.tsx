// A golden set: its items with what is relevant, and forms that add and remove.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request } from "../api/client";
import { useResource } from "../api/resource";
import type { GoldenItemList, GoldenItemOut, GoldenItemsOut, GoldenSetOut, RelevanceOut } from "../api/schema";
import { useTitle } from "../app";
import { ConfirmDialog } from "../components/dialog";
import { ScreenHead } from "../components/frame";
import { AddItemForm, buildItemsBody, type ItemBody } from "../components/golden_item_form";
import { buildPlaygroundPath, GoldenQuery, readQuestion } from "../components/golden_query";
import { Pages } from "../components/pages";
import { Badge, DataTable, Section } from "../components/parts";
import { EmptyState, Loaded, NoPermission } from "../components/states";
import { t, tn } from "../i18n";
import { buildPath, location, navigate } from "../router";
import { canEvaluate } from "../session";

export function GoldenSetScreen({ setId }: { setId: string }) {
  const path = canEvaluate.value ? `/v1/golden-sets/${encodeURIComponent(setId)}` : null;
  const set = useResource<GoldenSetOut>(path);
  useTitle(set.data?.name ?? t("golden.title"));
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
      <ScreenHead
        title={set.data?.name ?? setId}
        parents={[{ label: t("golden.title"), href: buildPath(["golden-sets"]) }]}
        note={set.data?.description}
        actions={set.data && <Actions set={set.data} path={path} />}
      />
      <Loaded resource={set}>{(data) => <Items set={data} path={path} reloadSet={set.reload} />}</Loaded>
    </>
  );
}

function Actions({ set, path }: { set: GoldenSetOut; path: string }) {
  const [isAsking, setAsking] = useState(false);
  const action = useAction(async () => {
    await request(path, { method: "DELETE" });
    navigate(buildPath(["golden-sets"]));
  });
  return (
    <>
      <a class="button" href={buildPath(["evaluations"], { set: set.id })}>
        {t("evaluations.title")}
      </a>
      <button type="button" class="button" onClick={() => setAsking(true)}>
        {t("golden.delete")}
      </button>
      {isAsking && (
        <ConfirmDialog title={t("golden.deleteTitle", { name: set.name })} label={t("golden.delete")} action={action} close={() => setAsking(false)}>
          <p>{t("golden.deleteWarning")}</p>
        </ConfirmDialog>
      )}
    </>
  );
}

function Items({ set, path, reloadSet }: { set: GoldenSetOut; path: string; reloadSet: () => void }) {
  const list = useResource<GoldenItemList>(`${path}/items`, { cursor: location.value.query.get("cursor") });
  const [message, setMessage] = useState("");
  const reload = (text: string) => {
    setMessage(text);
    list.reload();
    reloadSet();
  };
  const add = async (item: ItemBody) => {
    await request<GoldenItemsOut>(`${path}/items`, { method: "POST", body: buildItemsBody(item) });
    reload(t("golden.added"));
  };
  return (
    <>
      <p role="status" class={message ? "notice" : "hidden"}>
        {message}
      </p>
      <Section title={tn("golden.itemCount", set.item_count)}>
        <Loaded resource={list}>
          {({ items, next_cursor }) =>
            items.length === 0 ? (
              <EmptyState title={t("golden.noItems")} />
            ) : (
              <>
                <DataTable label={t("golden.items")} head={<Head />}>
                  {items.map((item) => (
                    <Row key={item.id} item={item} path={`${path}/items/${item.id}`} reload={reload} />
                  ))}
                </DataTable>
                <Pages parts={["golden-sets", set.id]} nextCursor={next_cursor} />
              </>
            )
          }
        </Loaded>
      </Section>
      <AddItemForm add={add} />
    </>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("golden.query")}</th>
      <th scope="col">{t("golden.relevant")}</th>
      <th scope="col">{t("jobs.action")}</th>
    </>
  );
}

interface RowProps {
  item: GoldenItemOut;
  path: string;
  reload: (message: string) => void;
}

function Row({ item, path, reload }: RowProps) {
  const remove = useAction(async () => {
    await request(path, { method: "DELETE" });
    reload(t("golden.removed"));
  });
  const removeOne = useAction(async ({ document, chunk }: RelevanceOut) => {
    await request(`${path}/relevant`, { method: "DELETE", query: { document, chunk } });
    reload(t("golden.removedRelevant"));
  });
  const error = remove.error ?? removeOne.error;
  const question = readQuestion(item);
  return (
    <tr>
      <th scope="row" class="wide">
        <GoldenQuery item={item} />
      </th>
      <td class="wide">
        <ul class="relevant-list">
          {item.relevant.map((relevance) => (
            <li key={`${relevance.document} ${relevance.chunk}`}>
              <RelevanceLink relevance={relevance} />
              {item.relevant.length > 1 && (
                <button
                  type="button"
                  class="button quiet"
                  disabled={removeOne.isBusy}
                  onClick={() => void removeOne.run(relevance)}
                  aria-label={t("golden.removeRelevant", { id: relevance.chunk ?? relevance.document, query: question })}
                >
                  {t("golden.remove")}
                </button>
              )}
            </li>
          ))}
        </ul>
        {error && <p class="bad-text" role="alert">{error.message}</p>}
      </td>
      <td>
        <div class="actions">
          <a class="button" href={buildPlaygroundPath(item)} aria-label={t("golden.searchOne", { query: question })}>
            {t("playground.run")}
          </a>
          <button
            type="button"
            class="button"
            disabled={remove.isBusy}
            onClick={() => void remove.run()}
            aria-label={t("golden.removeItem", { query: question })}
          >
            {t("golden.remove")}
          </button>
        </div>
      </td>
    </tr>
  );
}

function RelevanceLink({ relevance }: { relevance: RelevanceOut }) {
  const { document, chunk, knowledge_base } = relevance;
  const text = <code>{chunk ?? document}</code>;
  if (!knowledge_base) {
    return (
      <>
        {text} <Badge tone="warn">{t("golden.missing")}</Badge>
      </>
    );
  }
  return <a href={buildPath(["knowledge-bases", knowledge_base, "documents", document], { chunk })}>{text}</a>;
}
