// The list of chosen files: title, state, progress, and what went wrong with what to do.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import type { ApiError } from "../api/client";
import type { DocumentOut } from "../api/schema";
import type { UploadItem, UploadQueue } from "../api/upload_queue";
import { formatBytes, t, tn } from "../i18n";
import { buildPath } from "../router";
import { Badge, DataTable, StatusBadge } from "./parts";

const ROWS = 100;

interface RowsProps {
  queue: UploadQueue;
  knowledgeBase: string;
  /** Maximum size of a file; null if it is not known. */
  maxBytes: number | null;
  send: (item: UploadItem) => void;
  preview: (item: UploadItem) => void;
}

export function UploadRows(props: RowsProps) {
  const [shown, setShown] = useState(ROWS);
  const items = orderItems(props.queue.items.value);
  return (
    <div class="uploads">
      <DataTable label={t("upload.files")} head={<Head />}>
        {items.slice(0, shown).map((item) => (
          <Row key={item.id} item={item} {...props} />
        ))}
      </DataTable>
      {items.length > shown && (
        <button type="button" class="button" onClick={() => setShown(shown + ROWS)}>
          {tn("upload.more", items.length - shown)}
        </button>
      )}
    </div>
  );
}

/** In a list that is not shown as a whole, files that failed come first. */
function orderItems(items: UploadItem[]): UploadItem[] {
  if (items.length <= ROWS) return items;
  const [failed, others] = [items.filter((item) => item.hasFailed), items.filter((item) => !item.hasFailed)];
  return [...failed, ...others];
}

function Head() {
  return (
    <>
      <th scope="col">{t("upload.file")}</th>
      <th scope="col" class="number">{t("column.size")}</th>
      <th scope="col">{t("upload.titleOf")}</th>
      <th scope="col">{t("column.status")}</th>
      <th scope="col">{t("jobs.action")}</th>
    </>
  );
}

function Row({ item, queue, knowledgeBase, maxBytes, send, preview }: RowsProps & { item: UploadItem }) {
  const state = item.state.value;
  const isOpen = state.kind === "chosen" || state.kind === "rejected";
  const isTooLarge = maxBytes !== null && item.file.size > maxBytes;
  return (
    <tr>
      <th scope="row">
        {state.kind === "stored" ? (
          <a href={buildPath(["knowledge-bases", knowledgeBase, "documents", state.document.id])}>{item.path}</a>
        ) : (
          item.path
        )}
      </th>
      <td class="number">{formatBytes(item.file.size)}</td>
      <td class="title-cell">
        {isOpen ? (
          <input
            aria-label={t("upload.titleFor", { path: item.path })}
            maxLength={500}
            value={item.title.value}
            placeholder={t("upload.titleHint")}
            onInput={(event) => (item.title.value = event.currentTarget.value)}
          />
        ) : (
          item.title.value || "–"
        )}
      </td>
      <td class="wide">
        <ItemState item={item} />
        {isOpen && isTooLarge && <span class="sub bad-text">{t("upload.tooLarge", { size: formatBytes(maxBytes) })}</span>}
      </td>
      <td>
        <div class="row-actions">
          <button type="button" class="button" onClick={() => preview(item)} aria-label={t("upload.previewOf", { path: item.path })}>
            {t("upload.preview")}
          </button>
          {state.kind === "rejected" && (
            <button type="button" class="button" onClick={() => send(item)} aria-label={t("jobs.retryOne", { id: item.path })}>
              {t("action.retry")}
            </button>
          )}
          {state.kind === "stored" && state.document.status === "failed" && (
            <RetryIngestion item={item} document={state.document} queue={queue} />
          )}
          {isOpen && (
            <button
              type="button"
              class="button quiet"
              onClick={() => queue.remove(item)}
              aria-label={t("upload.removeOf", { path: item.path })}
            >
              {t("upload.remove")}
            </button>
          )}
        </div>
      </td>
    </tr>
  );
}

function RetryIngestion({ item, document, queue }: { item: UploadItem; document: DocumentOut; queue: UploadQueue }) {
  const retry = useAction(() => queue.reingest(item, document));
  return (
    <>
      <button
        type="button"
        class="button"
        disabled={retry.isBusy}
        onClick={() => retry.run()}
        aria-label={t("jobs.retryOne", { id: item.path })}
      >
        {t("action.retry")}
      </button>
      {retry.error && (
        <span class="sub bad-text" role="alert">
          {retry.error.message}
        </span>
      )}
    </>
  );
}

function ItemState({ item }: { item: UploadItem }) {
  const state = item.state.value;
  switch (state.kind) {
    case "chosen":
      return <Badge>{t("upload.chosen")}</Badge>;
    case "waiting":
      return <Badge>{t("upload.waiting")}</Badge>;
    case "sending":
      return <Badge>{t("upload.sending")}</Badge>;
    case "deleted":
      return <Badge tone="warn">{t("upload.deleted")}</Badge>;
    case "rejected":
      return <Rejection error={state.error} />;
    case "stored":
      return <StoredState document={state.document} isKnown={state.isKnown} path={item.path} />;
  }
}

/** Whether the same upload can succeed later. */
function isPassing({ status }: ApiError): boolean {
  return status === 0 || status === 408 || status === 409 || status === 429 || status >= 500;
}

function Rejection({ error }: { error: ApiError }) {
  return (
    <>
      <Badge tone="bad">{t("upload.rejected")}</Badge>
      <span class="sub bad-text">
        {error.status === 0 ? t("state.unreachable") : error.message} <code>{error.code}</code>
      </span>
      {!isPassing(error) && <span class="sub">{t("upload.notRetryable")}</span>}
      {error.requestId && (
        <span class="sub">
          {t("state.request")} <code>{error.requestId}</code>
        </span>
      )}
    </>
  );
}

function StoredState({ document, isKnown, path }: { document: DocumentOut; isKnown: boolean; path: string }) {
  const { done, total, waiting_for: waitingFor } = document.progress ?? {};
  const isRunning = document.status !== "ready" && document.status !== "failed";
  return (
    <>
      <StatusBadge status={document.status} /> {isKnown && <Badge>{t("upload.known")}</Badge>}{" "}
      {document.warnings.length > 0 && <Badge tone="warn">{tn("warnings.count", document.warnings.length)}</Badge>}
      {document.status === "ready" && <span class="sub">{tn("chunks.count", document.chunk_count)}</span>}
      {isRunning && typeof done === "number" && typeof total === "number" && (
        <span class="sub">
          <progress value={done} max={Math.max(total, 1)} aria-label={t("upload.progressOf", { path })} />{" "}
          {t("documents.progress", { done, total })}
        </span>
      )}
      {isRunning && typeof waitingFor === "string" && <span class="sub">{t("documents.waitingFor", { what: waitingFor })}</span>}
      {document.error && <Failure error={document.error} />}
    </>
  );
}

/** Stage, reason and remedy of a document that failed. */
function Failure({ error }: { error: Record<string, unknown> }) {
  return (
    <>
      {typeof error.stage === "string" && <span class="sub">{t("document.stage", { stage: error.stage })}</span>}
      <span class="sub bad-text">
        {String(error.message ?? "")} <code>{String(error.code)}</code>
      </span>
      {typeof error.hint === "string" && <span class="sub">{error.hint}</span>}
      {error.retryable === false && <span class="sub">{t("upload.notRetryable")}</span>}
    </>
  );
}
