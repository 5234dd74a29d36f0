// Upload of files into a knowledge base: choose, preview, send, and follow the ingestion.
import { useEffect, useMemo, useState } from "preact/hooks";
import { useResource } from "../api/resource";
import type { CapabilitiesOut, KnowledgeBaseOut } from "../api/schema";
import { UploadQueue, type CommonFields, type UploadItem } from "../api/upload_queue";
import { useTitle } from "../app";
import { CheckField, TextField } from "../components/fields";
import { FileDrop } from "../components/file_drop";
import { FilePreview } from "../components/file_preview";
import { ScreenHead } from "../components/frame";
import { LeaveQuestion } from "../components/leave_question";
import { Section } from "../components/parts";
import { EmptyState, Loaded, NoPermission } from "../components/states";
import { UploadRows } from "../components/upload_rows";
import { formatBytes, t, tn } from "../i18n";
import { buildPath } from "../router";
import { canWrite } from "../session";

export function UploadScreen({ knowledgeBase }: { knowledgeBase: string }) {
  useTitle(t("upload.title"));
  const path = `/v1/knowledge-bases/${encodeURIComponent(knowledgeBase)}`;
  const detail = useResource<KnowledgeBaseOut>(canWrite.value ? path : null);
  return (
    <>
      <ScreenHead
        title={t("upload.title")}
        parents={[
          { label: t("knowledgeBases.title"), href: buildPath(["knowledge-bases"]) },
          { label: detail.data?.title ?? knowledgeBase, href: buildPath(["knowledge-bases", knowledgeBase]) },
        ]}
      />
      {canWrite.value ? (
        <Loaded resource={detail}>{(item) => <Upload knowledgeBase={item} />}</Loaded>
      ) : (
        <NoPermission>{t("upload.needsWriter")}</NoPermission>
      )}
    </>
  );
}

function Upload({ knowledgeBase }: { knowledgeBase: KnowledgeBaseOut }) {
  const queue = useMemo(() => new UploadQueue(knowledgeBase.name), [knowledgeBase.name]);
  useEffect(() => () => queue.close(), [queue]);
  const capabilities = useResource<CapabilitiesOut>("/v1/capabilities");
  const [skipped, setSkipped] = useState(0);
  const [common, setCommon] = useState<CommonFields>({ metadata: "", pathIsId: false });
  const [previewed, setPreviewed] = useState<UploadItem | null>(null);
  const items = queue.items.value;
  const unsent = items.filter((item) => item.isUnsent).length;
  return (
    <>
      <LeaveQuestion losesWork={() => queue.items.peek().some((item) => item.isUnsent)}>
        <p>{tn("upload.unsent", unsent)}</p>
      </LeaveQuestion>
      <FileDrop choose={(files) => setSkipped(queue.add(files))} />
      <p role="status" class={skipped ? "notice upload-note" : "hidden"}>
        {skipped > 0 && tn("upload.skipped", skipped)}
      </p>
      {items.length === 0 ? (
        <EmptyState title={t("upload.none")}>
          <p class="muted">{t("upload.noneHint", { strategy: knowledgeBase.chunking.strategy })}</p>
        </EmptyState>
      ) : (
        <>
          <Options common={common} change={setCommon} knowledgeBase={knowledgeBase} />
          <Section title={t("upload.files")} actions={<SendButtons queue={queue} common={common} />}>
            <Summary items={items} />
            {queue.streamError.value && (
              <p class="notice bad" role="alert">
                {t("upload.noProgress", { reason: queue.streamError.value.message })}
              </p>
            )}
            <UploadRows
              queue={queue}
              knowledgeBase={knowledgeBase.name}
              maxBytes={capabilities.data?.limits.upload_bytes ?? null}
              send={(item) => queue.send(item, common)}
              preview={setPreviewed}
            />
          </Section>
        </>
      )}
      {previewed && items.includes(previewed) && (
        <Loaded resource={capabilities}>
          {(data) => (
            <FilePreview item={previewed} knowledgeBase={knowledgeBase} capabilities={data} close={() => setPreviewed(null)} />
          )}
        </Loaded>
      )}
    </>
  );
}

function Options(props: { common: CommonFields; change: (common: CommonFields) => void; knowledgeBase: KnowledgeBaseOut }) {
  const { common, change } = props;
  const { strategy, max_tokens: maxTokens } = props.knowledgeBase.chunking;
  return (
    <Section title={t("upload.options")}>
      <p class="muted">{t("upload.chunkingNote", { strategy, tokens: maxTokens })}</p>
      <TextField
        label={t("document.metadata")}
        hint={t("upload.metadataHint")}
        error={isObject(common.metadata) ? null : t("upload.metadataInvalid")}
        rows={3}
        placeholder={'{"department": "hr", "tags": ["leave"]}'}
        value={common.metadata}
        change={(metadata) => change({ ...common, metadata })}
      />
      <CheckField label={t("upload.pathIsId")} checked={common.pathIsId} change={(pathIsId) => change({ ...common, pathIsId })} />
    </Section>
  );
}

/** Whether a text is a JSON object, or empty. */
function isObject(text: string): boolean {
  if (!text.trim()) return true;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** Send what was not sent, and send again what was rejected. */
function SendButtons({ queue, common }: { queue: UploadQueue; common: CommonFields }) {
  const kinds = queue.items.value.map(({ state }) => state.value.kind);
  const fresh = kinds.filter((kind) => kind === "chosen").length;
  const rejected = kinds.filter((kind) => kind === "rejected").length;
  const isValid = isObject(common.metadata);
  return (
    <div class="actions">
      {rejected > 0 && (
        <button type="button" class="button" disabled={!isValid} onClick={() => queue.resendAll(common)}>
          {tn("upload.resend", rejected)}
        </button>
      )}
      {fresh > 0 && (
        <button type="button" class="button primary" disabled={!isValid} onClick={() => queue.sendAll(common)}>
          {tn("upload.send", fresh)}
        </button>
      )}
    </div>
  );
}

/** Numbers of files by what became of them; read out when they change. */
function Summary({ items }: { items: UploadItem[] }) {
  const counts = { unsent: 0, running: 0, ready: 0, failed: 0 };
  for (const { state } of items) counts[sortState(state.value)] += 1;
  const bytes = items.reduce((sum, { file }) => sum + file.size, 0);
  return (
    <p role="status" class="muted">
      {tn("upload.count", items.length, { size: formatBytes(bytes) })} {t("upload.summary", counts)}
    </p>
  );
}

function sortState(state: UploadItem["state"]["value"]): "unsent" | "running" | "ready" | "failed" {
  if (state.kind === "rejected" || state.kind === "deleted") return "failed";
  if (state.kind !== "stored") return "unsent";
  if (state.document.status === "ready" || state.document.status === "failed") return state.document.status;
  return "running";
}
