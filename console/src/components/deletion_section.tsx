// Deletion of an object with all its contents. The person types its name first, and the receipt follows.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request } from "../api/client";
import { t } from "../i18n";
import { buildPath, navigate } from "../router";
import { Dialog } from "./dialog";
import { TextField } from "./fields";
import { Section } from "./parts";

interface Props {
  name: string;
  /** Path of the object in the API. */
  path: string;
  hint: string;
  warning: string;
  label: string;
  /** Screen that shows the receipt. */
  receiptParts: string[];
}

export function DeletionSection(props: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Section title={t("settings.delete")}>
      <p class="muted">{props.hint}</p>
      <div>
        <button type="button" class="button danger" onClick={() => setOpen(true)}>
          {props.label}
        </button>
      </div>
      {isOpen && <DeletionDialog {...props} close={() => setOpen(false)} />}
    </Section>
  );
}

function DeletionDialog({ name, path, warning, label, receiptParts, close }: Props & { close: () => void }) {
  const [typed, setTyped] = useState("");
  const action = useAction(async () => {
    const { deletion } = await request<null>(path, { method: "DELETE" });
    navigate(buildPath(receiptParts, { deletion }));
  });
  const submit = (event: Event) => {
    event.preventDefault();
    if (typed === name) void action.run();
  };
  return (
    <Dialog title={t("settings.deleteTitle", { name })} close={close}>
      <form onSubmit={submit}>
        <p>{warning}</p>
        <TextField label={t("settings.typeName", { name })} value={typed} change={setTyped} />
        {action.error && (
          <p class="bad-text" role="alert">
            {action.error.message}
          </p>
        )}
        <div class="dialog-actions">
          <button type="button" class="button" onClick={close}>
            {t("action.cancel")}
          </button>
          <button type="submit" class="button danger" disabled={action.isBusy || typed !== name}>
            {label}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
