// A button that copies a text.
import { useState } from "preact/hooks";
import { t } from "../i18n";

async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Outside of a secure context there is no clipboard API: copy from a field.
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (!isCopied) throw new Error("not copied");
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [state, setState] = useState<"idle" | "done" | "failed">("idle");
  const copy = () => copyText(text).then(() => setState("done"), () => setState("failed"));
  return (
    <button type="button" class="button" onClick={copy} onBlur={() => setState("idle")}>
      <span aria-live="polite">
        {state === "done" ? t("action.copied") : state === "failed" ? t("action.copyFailed") : label}
      </span>
    </button>
  );
}
