// Knowledge bases that the key may read.
import type { KnowledgeBaseList, KnowledgeBaseOut } from "../api/schema";
import { useResource } from "../api/resource";
import { useTitle } from "../app";
import { ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { Receipt } from "../components/receipt";
import { Badge, DataTable, Time } from "../components/parts";
import { EmptyState, Loaded } from "../components/states";
import { formatNumber, t } from "../i18n";
import { buildPath, location } from "../router";
import { canAdminister } from "../session";

export function KnowledgeBasesScreen() {
  useTitle(t("knowledgeBases.title"));
  const { query } = location.value;
  const deletion = query.get("deletion");
  const list = useResource<KnowledgeBaseList>("/v1/knowledge-bases", { cursor: query.get("cursor") });
  return (
    <>
      <ScreenHead title={t("knowledgeBases.title")} actions={canAdminister.value && <CreateLink />} />
      {deletion && <Receipt id={deletion} />}
      <Loaded resource={list}>
        {({ items, next_cursor }) =>
          items.length === 0 ? (
            <EmptyState title={t("knowledgeBases.empty")} />
          ) : (
            <>
              <DataTable label={t("knowledgeBases.title")} head={<Head />}>
                {items.map((item) => (
                  <Row key={item.id} item={item} />
                ))}
              </DataTable>
              <Pages parts={["knowledge-bases"]} nextCursor={next_cursor} />
            </>
          )
        }
      </Loaded>
    </>
  );
}

function CreateLink() {
  return (
    <a class="button primary" href={buildPath(["create-knowledge-base"])}>
      {t("settings.new")}
    </a>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("column.name")}</th>
      <th scope="col" class="number">{t("column.documents")}</th>
      <th scope="col" class="number">{t("column.chunks")}</th>
      <th scope="col">{t("column.strategy")}</th>
      <th scope="col">{t("column.index")}</th>
      <th scope="col">{t("column.changed")}</th>
    </>
  );
}

function Row({ item }: { item: KnowledgeBaseOut }) {
  return (
    <tr>
      <th scope="row">
        <a href={buildPath(["knowledge-bases", item.name])}>{item.name}</a>
        {item.title !== item.name && <span class="sub">{item.title}</span>}
      </th>
      <td class="number">{formatNumber(item.document_count)}</td>
      <td class="number">{formatNumber(item.chunk_count)}</td>
      <td>{item.retrieval.strategy}</td>
      <td>
        <IndexState item={item} />
      </td>
      <td>
        <Time value={item.updated_at} />
      </td>
    </tr>
  );
}

export function IndexState({ item }: { item: KnowledgeBaseOut }) {
  if (item.index.problem) return <Badge tone="bad">{item.index.problem}</Badge>;
  if (item.reindex) return <Badge tone="warn">{t("knowledgeBases.reindexing")}</Badge>;
  return <span>{item.index.state}</span>;
}
