// Form of a new knowledge base. Its address is not below /knowledge-bases, where every name may be a knowledge base.
import { buildNewBody, fitToKind, SETTING_TITLES } from "../api/knowledge_base_settings";
import type { KnowledgeBaseOut } from "../api/schema";
import { useTitle } from "../app";
import { ScreenHead } from "../components/frame";
import { SettingsForm } from "../components/settings_form";
import { NoPermission } from "../components/states";
import { t } from "../i18n";
import { buildPath, navigate } from "../router";
import { isAdmin } from "../session";

export function CreateKnowledgeBaseScreen() {
  useTitle(t("settings.new"));
  return (
    <>
      <ScreenHead
        title={t("settings.new")}
        parents={[{ label: t("knowledgeBases.title"), href: buildPath(["knowledge-bases"]) }]}
      />
      {isAdmin.value ? (
        <SettingsForm<KnowledgeBaseOut>
          schemaName="KnowledgeBaseCreate"
          adjust={(schema, value) => fitToKind(schema, value.kind)}
          initial={{}}
          method="POST"
          path="/v1/knowledge-bases"
          buildBody={buildNewBody}
          canBeEmpty
          label={t("settings.create")}
          titles={SETTING_TITLES}
          done={({ data }) => navigate(buildPath(["knowledge-bases", data.name]))}
        />
      ) : (
        <NoPermission>{t("settings.needsAdmin")}</NoPermission>
      )}
    </>
  );
}
