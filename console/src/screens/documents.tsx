// One knowledge base: its settings in short, and its documents with status and warnings.
import type { DocumentList, DocumentOut, KnowledgeBaseOut } from "../api/schema";
import { useResource } from "../api/resource";
import { useTitle } from "../app";
import { ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { Badge, DataTable, Fact, Facts, formatStatus, Section, StatusBadge, STATUSES, Time } from "../components/parts";
import { EmptyState, Loaded } from "../components/states";
import { formatBytes, formatNumber, t, tn } from "../i18n";
import { buildPath, location, navigate } from "../router";
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
      {!detail.error && <DocumentSection knowledgeBase={knowledgeBase} path={path} />}
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

function DocumentSection({ knowledgeBase, path }: { knowledgeBase: string; path: string }) {
  const { query } = location.value;
  const status = query.get("status");
  const parts = ["knowledge-bases", knowledgeBase];
  const list = useResource<DocumentList>(`${path}/documents`, { status, cursor: query.get("cursor") });
  const filter = (
    <div class="actions">
      <label class="inline-field">
        <span>{t("documents.status")}</span>
        <select
          value={status ?? ""}
          onChange={(event) => navigate(buildPath(parts, { status: event.currentTarget.value }))}
        >
          <option value="">{t("documents.anyStatus")}</option>
          {STATUSES.map((name) => (
            <option key={name} value={name}>
              {formatStatus(name)}
            </option>
          ))}
        </select>
      </label>
      <button type="button" class="button" onClick={list.reload}>
        {t("action.refresh")}
      </button>
    </div>
  );
  return (
    <Section title={t("documents.title")} actions={filter}>
      <Loaded resource={list}>
        {({ items, next_cursor }) =>
          items.length === 0 ? (
            <EmptyState title={status ? t("documents.noneWithStatus") : t("documents.empty")}>
              {!status && <p class="muted">{t("documents.emptyHint")}</p>}
            </EmptyState>
          ) : (
            <>
              <DataTable label={t("documents.title")} head={<Head />}>
                {items.map((item) => (
                  <Row key={item.id} item={item} parts={parts} />
                ))}
              </DataTable>
              <Pages parts={parts} query={{ status }} nextCursor={next_cursor} />
            </>
          )
        }
      </Loaded>
    </Section>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("column.document")}</th>
      <th scope="col">{t("column.status")}</th>
      <th scope="col" class="number">{t("column.pages")}</th>
      <th scope="col" class="number">{t("column.chunks")}</th>
      <th scope="col" class="number">{t("column.size")}</th>
      <th scope="col">{t("column.changed")}</th>
    </>
  );
}

function Row({ item, parts }: { item: DocumentOut; parts: string[] }) {
  return (
    <tr>
      <th scope="row">
        <a href={buildPath([...parts, "documents", item.id])}>{item.title || item.source}</a>
        {item.title !== item.source && <span class="sub">{item.source}</span>}
      </th>
      <td>
        <StatusBadge status={item.status} />{" "}
        {item.warnings.length > 0 && <Badge tone="warn">{tn("warnings.count", item.warnings.length)}</Badge>}
        <StatusNote item={item} />
      </td>
      <td class="number">{item.page_count === null ? "–" : formatNumber(item.page_count)}</td>
      <td class="number">{formatNumber(item.chunk_count)}</td>
      <td class="number">{formatBytes(item.bytes)}</td>
      <td>
        <Time value={item.updated_at} />
      </td>
    </tr>
  );
}

/** Reason of a failure, or what a document waits for. */
export function StatusNote({ item }: { item: DocumentOut }) {
  if (item.error) return <span class="sub bad-text">{String(item.error.message ?? item.error.code)}</span>;
  const { waiting_for: waitingFor, done, total } = item.progress ?? {};
  if (typeof waitingFor === "string") return <span class="sub">{t("documents.waitingFor", { what: waitingFor })}</span>;
  if (typeof done === "number" && typeof total === "number") {
    return <span class="sub">{t("documents.progress", { done, total })}</span>;
  }
  return null;
}
