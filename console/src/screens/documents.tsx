// One knowledge base: its settings in short, and its documents with filters and actions.
import { useEffect, useState } from "preact/hooks";
import { type CursorList, useCursorList } from "../api/cursor_list";
import { useResource } from "../api/resource";
import type { DocumentList, DocumentOut, KnowledgeBaseOut } from "../api/schema";
import { useTitle } from "../app";
import { BulkActions } from "../components/bulk_actions";
import { DocumentFilterFields, readFilters } from "../components/document_filters";
import { DocumentTable, type Ticks } from "../components/document_table";
import { ScreenHead } from "../components/frame";
import { Fact, Facts, Section } from "../components/parts";
import { Receipt } from "../components/receipt";
import { EmptyState, ErrorState, Loaded, LoadingState } from "../components/states";
import { t, tn } from "../i18n";
import { buildPath, location } from "../router";
import { canWrite, isAdmin } from "../session";
import { IndexState } from "./knowledge_bases";

export function DocumentsScreen({ knowledgeBase }: { knowledgeBase: string }) {
  useTitle(knowledgeBase);
  const path = `/v1/knowledge-bases/${encodeURIComponent(knowledgeBase)}`;
  const detail = useResource<KnowledgeBaseOut>(path);
  return (
    <>
      <ScreenHead
        title={detail.data?.title ?? knowledgeBase}
        parents={[{ label: t("knowledgeBases.title"), href: buildPath(["knowledge-bases"]) }]}
        note={detail.data?.description}
        actions={
          <>
            <a class="button" href={buildPath(["knowledge-bases", knowledgeBase, "index"])}>
              {t("index.title")}
            </a>
            {isAdmin.value && (
              <a class="button" href={buildPath(["knowledge-bases", knowledgeBase, "settings"])}>
                {t("settings.title")}
              </a>
            )}
            <a class="button" href={buildPath(["search"], { kb: knowledgeBase })}>
              {t("documents.search")}
            </a>
            {canWrite.value && (
              <a class="button primary" href={buildPath(["knowledge-bases", knowledgeBase, "upload"])}>
                {t("upload.title")}
              </a>
            )}
          </>
        }
      />
      <Loaded resource={detail}>{(item) => <KnowledgeBaseFacts item={item} />}</Loaded>
      {!detail.error && <DocumentSection knowledgeBase={knowledgeBase} path={path} reloadFacts={detail.reload} />}
    </>
  );
}

function KnowledgeBaseFacts({ item }: { item: KnowledgeBaseOut }) {
  return (
    <Facts>
      <Fact term={t("column.name")}>
        {item.name} <code class="muted">{item.id}</code>
      </Fact>
      <Fact term={t("documents.contents")}>
        {tn("documents.count", item.document_count)}, {tn("chunks.count", item.chunk_count)}
      </Fact>
      <Fact term={t("documents.embedding")}>{item.embedding.model}</Fact>
      <Fact term={t("documents.chunking")}>
        {item.chunking.strategy}, {tn("tokens.count", item.chunking.max_tokens)}
      </Fact>
      <Fact term={t("column.strategy")}>{item.retrieval.strategy}</Fact>
      <Fact term={t("column.index")}>
        <IndexState item={item} /> {item.index.reason && <span class="muted">{item.index.reason}</span>}
      </Fact>
    </Facts>
  );
}

function DocumentSection({ knowledgeBase, path, reloadFacts }: { knowledgeBase: string; path: string; reloadFacts: () => void }) {
  const parts = ["knowledge-bases", knowledgeBase];
  const documents = `${path}/documents`;
  const filters = readFilters();
  const list = useCursorList<DocumentOut>(documents, filters);
  const total = useResource<DocumentList>(documents, { ...filters, limit: 1, count: "true" });
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set());
  const address = JSON.stringify([documents, filters]);
  useEffect(() => setTicked(new Set()), [address]);
  const toggle = (id: string) =>
    setTicked((before) => (before.has(id) ? new Set([...before].filter((other) => other !== id)) : new Set([...before, id])));
  const reload = () => {
    list.reload();
    total.reload();
    reloadFacts();
  };
  const deletion = location.value.query.get("deletion");
  const canTick = canWrite.value && !filters.level;
  return (
    <>
      {deletion && <Receipt key={deletion} id={deletion} />}
      <Section
        title={t("documents.title")}
        actions={
          <button type="button" class="button" onClick={reload}>
            {t("action.refresh")}
          </button>
        }
      >
        <DocumentFilterFields path={documents} parts={parts} />
        {canTick && (
          <BulkActions
            knowledgeBase={knowledgeBase}
            path={documents}
            filters={filters}
            ticked={ticked}
            clearTicks={() => setTicked(new Set())}
            reload={reload}
          />
        )}
        <p class="muted small" role="status">
          {typeof total.data?.total === "number" && tn("documents.found", total.data.total)}
        </p>
        <List list={list} total={total.data?.total ?? null} parts={parts} ticks={canTick ? { ids: ticked, toggle } : null} />
      </Section>
    </>
  );
}

function List({ list, ...table }: { list: CursorList<DocumentOut>; total: number | null; parts: string[]; ticks: Ticks | null }) {
  const hasFilter = Object.values(readFilters()).some((value) => value !== "");
  const fault = list.error && <ErrorState error={list.error} retry={list.reload} />;
  if (list.items === null) return fault ?? <LoadingState />;
  if (list.items.length === 0) {
    return (
      <EmptyState title={hasFilter ? t("documents.noneMatch") : t("documents.empty")}>
        {!hasFilter && <p class="muted">{t("documents.emptyHint")}</p>}
      </EmptyState>
    );
  }
  return (
    <>
      {fault}
      <DocumentTable list={list} items={list.items} {...table} />
    </>
  );
}
