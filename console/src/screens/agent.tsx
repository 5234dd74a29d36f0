// One agent: its binding as a form, its deletion, and a test conversation.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import { BINDING_TITLES, buildBindingChanges, offerKnowledgeBases, readBinding } from "../api/agent_settings";
import { request } from "../api/client";
import type { Fields } from "../api/json_schema";
import { useResource } from "../api/resource";
import type { AgentBindingOut, KnowledgeBaseList, KnowledgeBaseOut } from "../api/schema";
import { useTitle } from "../app";
import { ConfirmDialog } from "../components/dialog";
import { ScreenHead } from "../components/frame";
import { Section } from "../components/parts";
import { SettingsForm } from "../components/settings_form";
import { ErrorState, LoadingState, NoPermission } from "../components/states";
import { TestConversation } from "../components/test_conversation";
import { t } from "../i18n";
import { buildPath } from "../router";
import { canAdminister } from "../session";

export function AgentScreen({ agentId }: { agentId: string }) {
  useTitle(agentId);
  return (
    <>
      <ScreenHead title={agentId} parents={[{ label: t("agents.title"), href: buildPath(["agents"]) }]} />
      <TestConversation agentId={agentId} />
      {canAdminister.value ? <Binding agentId={agentId} /> : <NoPermission>{t("agents.needsAdmin")}</NoPermission>}
    </>
  );
}

function Binding({ agentId }: { agentId: string }) {
  const path = `/v1/agents/${encodeURIComponent(agentId)}`;
  const binding = useResource<AgentBindingOut>(path);
  const bases = useResource<KnowledgeBaseList>("/v1/knowledge-bases", { limit: 200 });
  const [message, setMessage] = useState("");
  const [forms, setForms] = useState(0);
  const reload = (notice: string) => {
    setMessage(notice);
    setForms(forms + 1);
    binding.reload();
  };
  const isUnbound = binding.error?.status === 404;
  const error = bases.error ?? (isUnbound ? null : binding.error);
  return (
    <Section title={t("agents.binding")}>
      <p role="status" class={message ? "notice" : "hidden"}>
        {message}
      </p>
      {error ? (
        <ErrorState error={error} retry={bases.error ? bases.reload : binding.reload} />
      ) : !bases.data || (!binding.data && !isUnbound) ? (
        <LoadingState />
      ) : (
        <BindingForm
          key={`${binding.etag} ${forms}`}
          binding={binding.data}
          etag={binding.etag}
          bases={bases.data.items}
          path={path}
          reload={reload}
        />
      )}
    </Section>
  );
}

interface BindingProps {
  /** The binding; null if the agent has none. */
  binding: AgentBindingOut | null;
  etag: string | null;
  bases: KnowledgeBaseOut[];
  path: string;
  reload: (message: string) => void;
}

function BindingForm({ binding, etag, bases, path, reload }: BindingProps) {
  const before: Fields = binding ? readBinding(binding, bases) : {};
  return (
    <>
      <SettingsForm<AgentBindingOut>
        schemaName={binding ? "AgentBindingUpdate" : "AgentBindingRequest"}
        adjust={(schema) => offerKnowledgeBases(schema, bases)}
        initial={before}
        method={binding ? "PATCH" : "PUT"}
        path={path}
        ifMatch={etag}
        buildBody={(value) => (binding ? buildBindingChanges(before, value) : value)}
        canBeEmpty={!binding}
        label={t(binding ? "settings.save" : "agents.bind")}
        titles={BINDING_TITLES}
        done={() => reload(t("settings.saved"))}
        loadAgain={() => reload("")}
      >
        {!binding && <p class="muted">{t("agents.unbound")}</p>}
      </SettingsForm>
      {binding && <UnbindButton path={path} reload={reload} />}
    </>
  );
}

function UnbindButton({ path, reload }: { path: string; reload: (message: string) => void }) {
  const [isOpen, setOpen] = useState(false);
  const action = useAction(async () => {
    await request(path, { method: "DELETE" });
    reload(t("agents.unboundNow"));
  });
  return (
    <div>
      <button type="button" class="button danger" onClick={() => setOpen(true)}>
        {t("agents.unbind")}
      </button>
      {isOpen && (
        <ConfirmDialog title={t("agents.unbind")} label={t("agents.unbind")} action={action} close={() => setOpen(false)}>
          <p>{t("agents.unbindWarning")}</p>
        </ConfirmDialog>
      )}
    </div>
  );
}
