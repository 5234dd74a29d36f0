// "Mark as relevant": adds the question and a result to a golden set. Keys that cannot write and restricted keys do not see it.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request } from "../api/client";
import { useResource } from "../api/resource";
import type { SearchResultOut } from "../api/schema";
import type { SearchSetup } from "../api/search_setup";
import { t } from "../i18n";
import { canWrite, isRestricted } from "../session";
import { ConfirmDialog } from "./dialog";
import { SelectField, TextField } from "./fields";

interface GoldenSet {
  id: string;
  name: string;
}

interface RelevanceProps {
  result: SearchResultOut;
  setup: SearchSetup;
}

export function RelevanceButton({ result, setup }: RelevanceProps) {
  const [isOpen, setOpen] = useState(false);
  const [isDone, setDone] = useState(false);
  if (!canWrite.value || isRestricted.value || !result.document.id) return null;
  return (
    <>
      <button type="button" class="button" onClick={() => setOpen(true)}>
        {t(isDone ? "playground.relevantDone" : "playground.relevant")}
      </button>
      {isOpen && <RelevanceDialog result={result} setup={setup} close={() => setOpen(false)} done={() => setDone(true)} />}
    </>
  );
}

function RelevanceDialog({ result, setup, close, done }: RelevanceProps & { close: () => void; done: () => void }) {
  const sets = useResource<{ items: GoldenSet[] }>("/v1/golden-sets", { limit: 200 });
  const [chosen, setChosen] = useState<string | null>(null);
  const [name, setName] = useState("");
  const wanted = chosen ?? sets.data?.items[0]?.id ?? "";
  const action = useAction(async () => {
    let id = wanted;
    if (!id) {
      const created = await request<GoldenSet>("/v1/golden-sets", { method: "POST", body: JSON.stringify({ name }) });
      id = created.data.id;
      // If the item is refused, the next try uses the set that exists now.
      sets.reload();
      setChosen(id);
    }
    const question = setup.messages ? { messages: setup.messages } : { query: setup.query };
    const relevant = [{ document: result.document.id, ...(result.chunk_id ? { chunk: result.chunk_id } : {}) }];
    const body = JSON.stringify({ items: [{ ...question, relevant }] });
    await request(`/v1/golden-sets/${encodeURIComponent(id)}/items`, { method: "POST", body });
    done();
  });
  const choices = (sets.data?.items ?? []).map((set) => ({ value: set.id, label: set.name }));
  return (
    <ConfirmDialog title={t("playground.relevant")} label={t("playground.relevant")} action={action} close={close}>
      <p class="muted">{t("playground.goldenHint")}</p>
      {sets.error && (
        <p class="bad-text" role="alert">
          {sets.error.message}
        </p>
      )}
      <SelectField
        label={t("playground.goldenSet")}
        value={wanted}
        change={setChosen}
        choices={[...choices, { value: "", label: t("playground.newGoldenSet") }]}
      />
      {!wanted && <TextField label={t("playground.goldenName")} value={name} change={setName} required />}
    </ConfirmDialog>
  );
}
