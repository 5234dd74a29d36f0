// What a person does with a document: download, edit, reindex, delete.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request, requestBlob } from "../api/client";
import type { DocumentDetailOut, DocumentOut } from "../api/schema";
import { t } from "../i18n";
import { buildPath, navigate } from "../router";
import { canWrite } from "../session";
import { ConfirmDialog, Dialog } from "./dialog";
import { TextField } from "./fields";
import { saveFile } from "./save_file";

interface Props {
  path: string;
  parts: string[];
  item: DocumentDetailOut;
  /** Version of the document, for `If-Match`. */
  etag: string | null;
  reload: () => void;
}

export function DocumentActions(props: Props) {
  const [opened, setOpened] = useState<"edit" | "reindex" | "delete" | null>(null);
  const close = () => setOpened(null);
  const download = useAction(async () => saveFile(await requestBlob(`${props.path}/content`), props.item.source));
  return (
    <>
      <button type="button" class="button" disabled={download.isBusy} onClick={() => void download.run()}>
        {t("document.download")}
      </button>
      {download.error && (
        <span class="bad-text" role="alert">
          {download.error.message}
        </span>
      )}
      {canWrite.value && (
        <>
          <button type="button" class="button" onClick={() => setOpened("edit")}>
            {t("document.edit")}
          </button>
          <button type="button" class="button" onClick={() => setOpened("reindex")}>
            {t("document.reindex")}
          </button>
          <button type="button" class="button" onClick={() => setOpened("delete")}>
            {t("document.delete")}
          </button>
        </>
      )}
      {opened === "edit" && <EditDialog {...props} close={close} />}
      {opened === "reindex" && <ReindexDialog {...props} close={close} />}
      {opened === "delete" && <DeleteDialog {...props} close={close} />}
    </>
  );
}

function ReindexDialog({ path, reload, close }: Props & { close: () => void }) {
  const action = useAction(async () => {
    await request(`${path}/reindex`, { method: "POST" });
    reload();
  });
  return (
    <ConfirmDialog title={t("document.reindex")} label={t("document.reindex")} action={action} close={close}>
      <p>{t("document.reindexHint")}</p>
    </ConfirmDialog>
  );
}

function DeleteDialog({ path, parts, item, close }: Props & { close: () => void }) {
  const action = useAction(async () => {
    const { deletion } = await request(path, { method: "DELETE" });
    navigate(buildPath(parts, { deletion }), { replace: true });
  });
  return (
    <ConfirmDialog title={t("document.delete")} label={t("document.delete")} action={action} close={close}>
      <p>{item.title || item.source}</p>
      <p>{t("document.deleteHint")}</p>
    </ConfirmDialog>
  );
}

/** Return the JSON object of a text; null if it is none. */
function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function EditDialog({ path, item, etag, reload, close }: Props & { close: () => void }) {
  const before = JSON.stringify(item.metadata, null, 2);
  // A reload keeps the version that the person has read.
  const [version] = useState(etag);
  const [title, setTitle] = useState(item.title);
  const [metadata, setMetadata] = useState(before);
  const parsed = parseObject(metadata);
  const changes = {
    ...(title !== item.title && { title: title.trim() || null }),
    ...(metadata !== before && { metadata: parsed }),
  };
  const action = useAction(async () => {
    await request<DocumentOut>(path, { method: "PATCH", body: JSON.stringify(changes), ifMatch: version ?? undefined });
    reload();
  });
  const save = async (event: Event) => {
    event.preventDefault();
    if (await action.run()) close();
  };
  const loadAgain = () => {
    reload();
    close();
  };
  return (
    <Dialog title={t("document.edit")} close={close}>
      <form class="form" onSubmit={save}>
        <TextField label={t("document.editTitle")} hint={t("document.editTitleHint")} value={title} change={setTitle} />
        <TextField
          label={t("document.metadata")}
          error={parsed ? undefined : t("upload.metadataInvalid")}
          value={metadata}
          change={setMetadata}
          rows={8}
        />
        {action.error && (
          <div role="alert" class="notice bad">
            <p>{action.error.status === 412 ? t("document.changedMeanwhile") : action.error.message}</p>
            {action.error.status === 412 && (
              <button type="button" class="button" onClick={loadAgain}>
                {t("document.loadAgain")}
              </button>
            )}
          </div>
        )}
        <div class="dialog-actions">
          <button type="button" class="button" onClick={close}>
            {t("action.cancel")}
          </button>
          <button type="submit" class="button primary" disabled={action.isBusy || !parsed || !Object.keys(changes).length}>
            {t("document.save")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
