// Actions on many documents: retry what failed, ingest ticked ones again, delete ticked ones or those of the filter.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request } from "../api/client";
import { useResource } from "../api/resource";
import type { DocumentList, DocumentsDeletedOut, JobsRetriedOut } from "../api/schema";
import { t, tn } from "../i18n";
import { buildPath, navigate, type Query } from "../router";
import { canAdminister, isAdmin } from "../session";
import { ConfirmDialog } from "./dialog";
import type { DocumentFilters } from "./document_filters";
import { ErrorState, LoadingState } from "./states";

type Kind = "retry" | "reindex" | "deleteTicked" | "deleteFilter";
const QUESTIONS = {
  retry: "documents.ask.retry",
  reindex: "documents.ask.reindex",
  deleteTicked: "documents.ask.deleteTicked",
  deleteFilter: "documents.ask.deleteFilter",
} as const;

interface Props {
  knowledgeBase: string;
  path: string;
  filters: DocumentFilters;
  ticked: ReadonlySet<string>;
  clearTicks: () => void;
  reload: () => void;
}

/** Return the filter that a deletion takes, or null: the API deletes by `filter` or `external_id` alone. */
function getDeletable(filters: DocumentFilters): Query | null {
  const set = Object.entries(filters).filter(([, value]) => value !== "");
  const [only] = set;
  return set.length === 1 && only && (only[0] === "filter" || only[0] === "external_id") ? { [only[0]]: only[1] } : null;
}

export function BulkActions(props: Props) {
  const [asked, setAsked] = useState<Kind | null>(null);
  const [message, setMessage] = useState("");
  const deletable = getDeletable(props.filters);
  const count = props.ticked.size;
  return (
    <>
      <div class="actions">
        {canAdminister.value && <Ask label={t("documents.retryFailed")} ask={() => setAsked("retry")} />}
        {count > 0 && <Ask label={tn("documents.reindexTicked", count)} ask={() => setAsked("reindex")} />}
        {count > 0 && isAdmin.value && <Ask label={tn("documents.deleteTicked", count)} ask={() => setAsked("deleteTicked")} />}
        {deletable && isAdmin.value && <Ask label={t("documents.deleteFilter")} ask={() => setAsked("deleteFilter")} />}
      </div>
      <p role="status" class={message ? "notice" : "hidden"}>
        {message}
      </p>
      {asked && <Question {...props} kind={asked} deletable={deletable} close={() => setAsked(null)} tell={setMessage} />}
    </>
  );
}

function Ask({ label, ask }: { label: string; ask: () => void }) {
  return (
    <button type="button" class="button" onClick={ask}>
      {label}
    </button>
  );
}

type QuestionProps = Props & { kind: Kind; deletable: Query | null; close: () => void; tell: (message: string) => void };

/** Ask with the number of documents, then act. */
function Question(props: QuestionProps) {
  const { kind, ticked } = props;
  const counted = kind === "retry" ? { status: "failed" } : kind === "deleteFilter" ? props.deletable : null;
  const list = useResource<DocumentList>(counted && props.path, { ...counted, limit: 1, count: "true" });
  const count = counted ? (list.data?.total ?? null) : ticked.size;
  const action = useAction(() => act(props));
  const label = kind === "retry" ? t("documents.retryFailed") : kind === "reindex" ? t("documents.reindex") : t("documents.delete");
  return (
    <ConfirmDialog title={label} label={label} action={{ ...action, isBusy: action.isBusy || !count }} close={props.close}>
      {list.error && <ErrorState error={list.error} retry={list.reload} />}
      {list.isLoading && <LoadingState />}
      {count !== null && <p>{tn(QUESTIONS[kind], count)}</p>}
      {list.data && count === null && <p class="bad-text">{t("documents.notCounted")}</p>}
    </ConfirmDialog>
  );
}

async function act({ kind, knowledgeBase, path, filters, ticked, deletable, clearTicks, reload, tell }: QuestionProps): Promise<void> {
  if (kind === "retry") {
    const query = { knowledge_base: knowledgeBase, kind: "ingest_document" };
    const { data } = await request<JobsRetriedOut>("/v1/jobs/retry", { method: "POST", query });
    tell(tn("jobs.retried", data.retried) + (data.has_more ? ` ${t("documents.moreFailed")}` : ""));
  } else if (kind === "reindex") {
    for (const id of ticked) await request(`${path}/${encodeURIComponent(id)}/reindex`, { method: "POST" });
    tell(tn("documents.reindexed", ticked.size));
  } else {
    const query = kind === "deleteTicked" ? { ids: [...ticked].join(",") } : (deletable ?? {});
    const { data } = await request<DocumentsDeletedOut>(path, { method: "DELETE", query });
    tell(tn("documents.deleted", data.deleted));
    navigate(buildPath(["knowledge-bases", knowledgeBase], { ...filters, deletion: data.deletion }), { replace: true });
  }
  clearTicks();
  reload();
}
