// The search index of a knowledge base: its state, a reindex with its progress, and the way back.
import { useEffect, useState } from "preact/hooks";
import { useAction, type Action } from "../api/action";
import { request } from "../api/client";
import { dropNulls, listChanges, type Fields } from "../api/json_schema";
import { SETTING_TITLES } from "../api/knowledge_base_settings";
import { useResource, type Resource } from "../api/resource";
import type { KnowledgeBaseOut, ReindexOut } from "../api/schema";
import { useTitle } from "../app";
import { ConfirmDialog } from "../components/dialog";
import { ScreenHead } from "../components/frame";
import { Badge, Fact, Facts, Section, Time } from "../components/parts";
import { SettingsForm } from "../components/settings_form";
import { EmptyState, Loaded } from "../components/states";
import { formatBytes, formatNumber, formatScore, t, tn, type TextKey } from "../i18n";
import { buildPath } from "../router";
import { isAdmin } from "../session";
import { listParents } from "./knowledge_base_settings";

const POLL_MS = 2_000;
const STATES: Record<KnowledgeBaseOut["index"]["state"], TextKey> = {
  exact: "index.exact",
  building: "index.building",
  hnsw: "index.hnsw",
};

export function KnowledgeBaseIndexScreen({ knowledgeBase }: { knowledgeBase: string }) {
  useTitle(t("index.title"));
  const path = `/v1/knowledge-bases/${encodeURIComponent(knowledgeBase)}`;
  const detail = useResource<KnowledgeBaseOut>(path);
  useFollowing(detail);
  return (
    <>
      <ScreenHead
        title={t("index.title")}
        parents={listParents(knowledgeBase)}
        actions={
          isAdmin.value && (
            <a class="button" href={buildPath(["knowledge-bases", knowledgeBase, "settings"])}>
              {t("settings.title")}
            </a>
          )
        }
      />
      <Loaded resource={detail}>
        {(item) =>
          item.kind === "documents" ? (
            <>
              <IndexCard item={item} />
              <ReindexSection item={item} path={path} reload={detail.reload} />
            </>
          ) : (
            <EmptyState title={t("index.none")} />
          )
        }
      </Loaded>
    </>
  );
}

/** Load the state again and again while it changes by itself. */
function useFollowing({ data, reload }: Resource<KnowledgeBaseOut>): void {
  const changes = data?.reindex?.state === "building" || data?.index.state === "building";
  useEffect(() => {
    if (!changes) return;
    const timer = setInterval(reload, POLL_MS);
    return () => clearInterval(timer);
  }, [changes, reload]);
}

function IndexCard({ item }: { item: KnowledgeBaseOut }) {
  const { index, embedding, chunking } = item;
  return (
    <>
      {index.problem && (
        <p class="notice bad">
          {index.problem} {index.action && <Badge tone="bad">{index.action}</Badge>}
        </p>
      )}
      <Facts>
        <Fact term={t("index.state")}>
          <Badge tone={index.state === "building" ? "warn" : "good"}>{index.state}</Badge> {t(STATES[index.state])}
        </Fact>
        {index.reason && <Fact term={t("index.reason")}>{index.reason}</Fact>}
        {index.recall !== null && <Fact term={t("index.recall")}>{formatScore(index.recall)}</Fact>}
        <Fact term={t("index.size")}>{formatBytes(index.size_bytes)}</Fact>
        <Fact term={t("documents.contents")}>
          {tn("documents.count", item.document_count)}, {tn("chunks.count", item.chunk_count)}
        </Fact>
        <Fact term={t("index.averageLength")}>{formatNumber(index.average_length)}</Fact>
        <Fact term={t("index.analyzer")}>{index.analyzer}</Fact>
        <Fact term={t("documents.embedding")}>
          {embedding.model}, {t("index.dimensions", { count: embedding.dimensions })}
        </Fact>
        <Fact term={t("documents.chunking")}>
          {chunking.strategy}, {tn("tokens.count", chunking.max_tokens)}
        </Fact>
        <Fact term={t("settings.language")}>{item.language}</Fact>
      </Facts>
    </>
  );
}

function ReindexSection({ item, path, reload }: { item: KnowledgeBaseOut; path: string; reload: () => void }) {
  const { reindex, rollback_until: rollbackUntil } = item;
  return (
    <>
      {reindex && (
        <Section title={t("index.reindex")}>
          <Progress reindex={reindex} />
          {isAdmin.value && <CancelButton path={path} reload={reload} />}
        </Section>
      )}
      {isAdmin.value && rollbackUntil && !reindex && (
        <Section title={t("index.rollback")}>
          <p class="muted">
            {t("index.rollbackHint")} <Time value={rollbackUntil} />
          </p>
          <RollbackButton path={path} reload={reload} />
        </Section>
      )}
      {isAdmin.value && (!reindex || reindex.state === "failed") && (
        <Section title={t(reindex ? "index.continue" : "index.start")}>
          <ReindexForm item={item} path={path} reload={reload} />
        </Section>
      )}
    </>
  );
}

function Progress({ reindex }: { reindex: ReindexOut }) {
  const { done, total, error, last_error: lastError, embedding, chunking, language } = reindex;
  return (
    <>
      <div class="progress-line" role="status">
        <progress aria-label={t("index.reindex")} max={Math.max(total, 1)} value={done} />
        <span>{t("index.progress", { done, total })}</span>
      </div>
      {error && (
        <p class="notice bad">
          {error.message} <code>{error.code}</code> {error.document && <code>{error.document}</code>}
        </p>
      )}
      {lastError && (
        <p class="notice">
          {t("index.retried")} {lastError.message} <code>{lastError.code}</code>
        </p>
      )}
      <Facts>
        <Fact term={t("documents.embedding")}>{embedding.model}</Fact>
        <Fact term={t("documents.chunking")}>
          {chunking.strategy}, {tn("tokens.count", chunking.max_tokens)}
        </Fact>
        <Fact term={t("settings.language")}>{language}</Fact>
        <Fact term={t("index.started")}>
          <Time value={reindex.started_at} />
        </Fact>
      </Facts>
    </>
  );
}

function ActionButton({ action, label }: { action: Action<[]>; label: string }) {
  return (
    <div class="actions">
      <button type="button" class="button" disabled={action.isBusy} onClick={() => void action.run()}>
        {label}
      </button>
      {action.error && (
        <span class="bad-text" role="alert">
          {action.error.message}
        </span>
      )}
    </div>
  );
}

function CancelButton({ path, reload }: { path: string; reload: () => void }) {
  const action = useAction(async () => {
    await request(`${path}/reindex`, { method: "DELETE" });
    reload();
  });
  return <ActionButton action={action} label={t("index.cancel")} />;
}

function RollbackButton({ path, reload }: { path: string; reload: () => void }) {
  const [isOpen, setOpen] = useState(false);
  const action = useAction(async () => {
    await request(`${path}/reindex/rollback`, { method: "POST" });
    reload();
  });
  return (
    <div>
      <button type="button" class="button" onClick={() => setOpen(true)}>
        {t("index.rollback")}
      </button>
      {isOpen && (
        <ConfirmDialog title={t("index.rollback")} label={t("index.rollback")} action={action} close={() => setOpen(false)}>
          <p>{t("index.rollbackWarning")}</p>
        </ConfirmDialog>
      )}
    </div>
  );
}

/** The settings of the next index. A failed reindex continues if its own settings are sent again. */
function ReindexForm({ item, path, reload }: { item: KnowledgeBaseOut; path: string; reload: () => void }) {
  const live = readIndexSettings(item);
  return (
    <SettingsForm<KnowledgeBaseOut>
      schemaName="ReindexRequest"
      initial={item.reindex ? readIndexSettings(item.reindex) : live}
      method="POST"
      path={`${path}/reindex`}
      buildBody={(value) => dropNulls(listChanges(live, value))}
      canBeEmpty
      label={t("index.start")}
      titles={SETTING_TITLES}
      done={reload}
    >
      <p class="muted">{t("index.startHint")}</p>
    </SettingsForm>
  );
}

function readIndexSettings({ embedding, chunking, language }: Pick<ReindexOut, "embedding" | "chunking" | "language">): Fields {
  return { embedding, chunking, language };
}
