// A modal dialog, which keeps the focus inside and closes with Escape.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import type { Action } from "../api/action";
import { t } from "../i18n";

export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog ref={element} class="dialog" aria-labelledby={titleId} onClose={close}>
      <h2 id={titleId}>{title}</h2>
      {children}
    </dialog>
  );
}

/** A question before an action that changes much. The dialog closes when the action has succeeded. */
export function ConfirmDialog(props: {
  title: string;
  label: string;
  action: Action<[]>;
  close: () => void;
  children: ComponentChildren;
}) {
  const confirm = async (event: Event) => {
    event.preventDefault();
    if (await props.action.run()) props.close();
  };
  return (
    <Dialog title={props.title} close={props.close}>
      <form onSubmit={confirm}>
        {props.children}
        {props.action.error && (
          <p class="bad-text" role="alert">
            {props.action.error.message}
          </p>
        )}
        <div class="dialog-actions">
          <button type="button" class="button" onClick={props.close}>
            {t("action.cancel")}
          </button>
          <button type="submit" class="button primary" disabled={props.action.isBusy}>
            {props.label}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
