// Choice of files: a place to drop files and folders, and fields for both.
import { useState } from "preact/hooks";
import { readDrop, readFileField, type ChosenFile } from "../api/file_entries";
import { t } from "../i18n";

export function FileDrop({ choose }: { choose: (files: ChosenFile[]) => void }) {
  const [isOver, setOver] = useState(false);
  const [error, setError] = useState("");
  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (!event.dataTransfer) return;
    try {
      choose(await readDrop(event.dataTransfer));
      setError("");
    } catch (failure) {
      setError(t("upload.unreadable", { reason: String(failure) }));
    }
  };
  const enter = (event: DragEvent) => {
    event.preventDefault();
    setOver(true);
  };
  return (
    <div
      class={isOver ? "drop over" : "drop"}
      onDragEnter={enter}
      onDragOver={enter}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <p>{t("upload.drop")}</p>
      <div class="actions">
        <FileField label={t("upload.chooseFiles")} choose={choose} />
        <FileField label={t("upload.chooseFolder")} choose={choose} isFolder />
      </div>
      {error && (
        <p class="bad-text" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

function FileField({ label, choose, isFolder = false }: { label: string; choose: (files: ChosenFile[]) => void; isFolder?: boolean }) {
  const take = (event: Event) => {
    const field = event.currentTarget as HTMLInputElement;
    choose(readFileField(field));
    field.value = "";
  };
  return (
    <label class="button file-field">
      <input type="file" multiple {...(isFolder ? { webkitdirectory: true } : {})} onChange={take} />
      <span>{label}</span>
    </label>
  );
}
