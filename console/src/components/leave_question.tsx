// The question before a screen is left whose work would be lost.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useAction } from "../api/action";
import { t } from "../i18n";
import { guardScreen, pendingLeave } from "../router";
import { ConfirmDialog } from "./dialog";

export function LeaveQuestion(props: { losesWork: () => boolean; children: ComponentChildren }) {
  const check = useRef(props.losesWork);
  check.current = props.losesWork;
  useEffect(() => guardScreen(() => check.current()), []);
  const leave = useAction(async () => pendingLeave.peek()?.());
  if (!pendingLeave.value) return null;
  return (
    <ConfirmDialog title={t("leave.title")} label={t("leave.confirm")} action={leave} close={() => (pendingLeave.value = null)}>
      {props.children}
    </ConfirmDialog>
  );
}
