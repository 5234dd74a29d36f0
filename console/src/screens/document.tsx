// One document: facts, warnings, metadata and its chunks. Text of the document is only ever a text node.
import { useEffect, useRef } from "preact/hooks";
import type { ChunkDetailOut, ChunkList, ChunkOut, DocumentDetailOut } from "../api/schema";
import { useResource, type Resource } from "../api/resource";
import { useTitle } from "../app";
import { DocumentActions } from "../components/document_actions";
import { DocumentTree } from "../components/document_tree";
import { ScreenHead } from "../components/frame";
import { ChunkPages } from "../components/page_image";
import { Pages } from "../components/pages";
import { Fact, Facts, Section, StatusBadge, Time, Warnings } from "../components/parts";
import { Receipt } from "../components/receipt";
import { EmptyState, Loaded } from "../components/states";
import { formatBytes, formatNumber, t, tn } from "../i18n";
import { buildPath, location } from "../router";

const CHUNKS_PER_PAGE = 25;

export function DocumentScreen({ knowledgeBase, documentId }: { knowledgeBase: string; documentId: string }) {
  const path = `/v1/knowledge-bases/${encodeURIComponent(knowledgeBase)}/documents/${encodeURIComponent(documentId)}`;
  const parts = ["knowledge-bases", knowledgeBase, "documents", documentId];
  const { query } = location.value;
  const deletion = query.get("deletion");
  const detail = useResource<DocumentDetailOut>(deletion ? null : path);
  const [chosen, node] = [query.get("chunk"), query.get("node")];
  const chunkPath = detail.data && chosen ? `${path}/chunks/${encodeURIComponent(chosen)}` : null;
  const chunk = useResource<ChunkDetailOut>(chunkPath, { include: "entities" });
  const title = detail.data ? detail.data.title || detail.data.source : documentId;
  useTitle(title);
  return (
    <>
      <ScreenHead
        title={title}
        parents={[
          { label: t("knowledgeBases.title"), href: buildPath(["knowledge-bases"]) },
          { label: knowledgeBase, href: buildPath(["knowledge-bases", knowledgeBase]) },
        ]}
        actions={
          detail.data && (
            <div class="actions">
              <DocumentActions path={path} parts={parts} item={detail.data} etag={detail.etag} reload={detail.reload} />
              <button type="button" class="button" onClick={detail.reload}>
                {t("action.refresh")}
              </button>
            </div>
          )
        }
      />
      {deletion ? (
        <Receipt id={deletion} />
      ) : (
        <Loaded resource={detail}>{(item) => <DocumentFacts item={item} />}</Loaded>
      )}
      {chunkPath && <ChosenChunk path={path} chunk={chunk} parts={parts} node={node} />}
      {detail.data && (
        <DocumentTree
          key={detail.data.live_version}
          path={path}
          choice={{ parts, node, chunk: chosen, chunkNodes: chunk.data?.node_path ?? [] }}
        />
      )}
      {detail.data && <ChunkSection path={path} parts={parts} chosen={chosen} node={node} />}
    </>
  );
}

function DocumentFacts({ item }: { item: DocumentDetailOut }) {
  const { error } = item;
  return (
    <>
      {error && (
        <div class="notice bad">
          <p>{String(error.message ?? error.code)}</p>
          {error.hint ? <p>{String(error.hint)}</p> : null}
          {error.stage ? <p class="small">{t("document.stage", { stage: String(error.stage) })}</p> : null}
        </div>
      )}
      <Facts>
        <Fact term={t("column.status")}>
          <StatusBadge status={item.status} />
        </Fact>
        <Fact term={t("document.source")}>{item.source}</Fact>
        <Fact term={t("document.id")}>
          <code>{item.id}</code>
        </Fact>
        <Fact term={t("document.mediaType")}>{item.media_type}</Fact>
        <Fact term={t("column.size")}>{formatBytes(item.bytes)}</Fact>
        {item.page_count !== null && <Fact term={t("column.pages")}>{formatNumber(item.page_count)}</Fact>}
        <Fact term={t("document.version")}>
          {item.live_version === null || item.live_version === item.version
            ? formatNumber(item.version)
            : t("document.versions", { version: item.version, live: item.live_version })}
        </Fact>
        {item.language && <Fact term={t("document.language")}>{item.language}</Fact>}
        <Fact term={t("document.scope")}>{item.scope.level}</Fact>
        <Fact term={t("document.created")}>
          <Time value={item.created_at} />
        </Fact>
        {item.expires_at && (
          <Fact term={t("document.expires")}>
            <Time value={item.expires_at} />
          </Fact>
        )}
      </Facts>
      {item.warnings.length > 0 && (
        <Section title={t("document.warnings")}>
          <Warnings warnings={item.warnings} />
        </Section>
      )}
      {Object.keys(item.metadata).length > 0 && (
        <Section title={t("document.metadata")}>
          <pre class="code" tabIndex={0}>
            {JSON.stringify(item.metadata, null, 2)}
          </pre>
        </Section>
      )}
    </>
  );
}

function ChosenChunk(props: { path: string; chunk: Resource<ChunkDetailOut>; parts: string[]; node: string | null }) {
  const { path, chunk, parts, node } = props;
  const close = (
    <a class="button" href={buildPath(parts, { node })}>
      {t("action.close")}
    </a>
  );
  return (
    <Section title={t("document.chosen")} actions={close}>
      <Loaded resource={chunk}>
        {(item) => (
          <>
            <Chunk item={item} parts={parts} node={node} isChosen />
            {item.warnings && <Warnings warnings={item.warnings} />}
            <ChunkEntities item={item} />
            <nav class="pages" aria-label={t("document.neighbours")}>
              {item.previous_chunk_id && (
                <a href={buildPath(parts, { chunk: item.previous_chunk_id, node })}>{t("document.previous")}</a>
              )}
              {item.next_chunk_id && (
                <a href={buildPath(parts, { chunk: item.next_chunk_id, node })}>{t("document.next")}</a>
              )}
            </nav>
            <ChunkPages path={path} chunk={item} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

function ChunkEntities({ item }: { item: ChunkDetailOut }) {
  if (!item.entities?.length) return null;
  return (
    <p class="small">
      {t("document.entities")} {item.entities.map(({ name }) => name).join(", ")}
    </p>
  );
}

function ChunkSection(props: { path: string; parts: string[]; chosen: string | null; node: string | null }) {
  const { path, parts, chosen, node } = props;
  const cursor = location.value.query.get("cursor");
  const list = useResource<ChunkList>(`${path}/chunks`, { limit: CHUNKS_PER_PAGE, cursor, node });
  const start = useRef<HTMLDivElement>(null);
  const isLoaded = list.data !== null;
  useEffect(() => {
    if (node && isLoaded) start.current?.scrollIntoView();
  }, [node, isLoaded]);
  return (
    <div ref={start}>
      <Section title={node ? t("document.chunksOfNode") : t("document.chunks")}>
        <Loaded resource={list}>
          {({ items, next_cursor }) =>
            items.length === 0 ? (
              <EmptyState title={t("document.noChunks")} />
            ) : (
              <>
                <ol class="chunks">
                  {items.map((item) => (
                    <li key={item.id}>
                      <Chunk item={item} parts={parts} node={node} isChosen={item.id === chosen} />
                    </li>
                  ))}
                </ol>
                <Pages parts={parts} query={{ chunk: chosen, node }} nextCursor={next_cursor} />
              </>
            )
          }
        </Loaded>
      </Section>
    </div>
  );
}

function Chunk({ item, parts, node, isChosen }: { item: ChunkOut; parts: string[]; node: string | null; isChosen: boolean }) {
  return (
    <article class={isChosen ? "chunk chosen" : "chunk"}>
      <header class="chunk-head">
        <a href={buildPath(parts, { chunk: item.id, node })} aria-current={isChosen ? "true" : undefined}>
          {t("chunk.number", { number: item.chunk_index })}
        </a>
        <span class="muted">{formatPlace(item)}</span>
        <span class="muted">{tn("tokens.count", item.tokens)}</span>
      </header>
      {item.section_titles.length > 0 && <p class="muted small">{item.section_titles.join(" › ")}</p>}
      <p class="text">{item.text}</p>
    </article>
  );
}

export function formatPlace(item: { page: number | null; page_end: number | null; slide: number | null }): string {
  if (item.slide !== null) return t("chunk.slide", { number: item.slide });
  if (item.page === null) return "";
  if (item.page_end !== null && item.page_end !== item.page) {
    return t("chunk.pages", { first: item.page, last: item.page_end });
  }
  return t("chunk.page", { number: item.page });
}
