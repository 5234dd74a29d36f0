// Settings of a knowledge base: what PATCH can change, with If-Match, and the deletion.
import { useState } from "preact/hooks";
import { buildChangeBody, fitToKind, readSettings, SETTING_TITLES } from "../api/knowledge_base_settings";
import { useResource } from "../api/resource";
import type { KnowledgeBaseOut } from "../api/schema";
import { useTitle } from "../app";
import { DeletionSection } from "../components/deletion_section";
import { ScreenHead } from "../components/frame";
import { SettingsForm } from "../components/settings_form";
import { Loaded, NoPermission } from "../components/states";
import { t, tn } from "../i18n";
import { buildPath } from "../router";
import { isAdmin } from "../session";

/** Links to the screens above a screen of one knowledge base. */
export function listParents(knowledgeBase: string) {
  return [
    { label: t("knowledgeBases.title"), href: buildPath(["knowledge-bases"]) },
    { label: knowledgeBase, href: buildPath(["knowledge-bases", knowledgeBase]) },
  ];
}

export function KnowledgeBaseSettingsScreen({ knowledgeBase }: { knowledgeBase: string }) {
  useTitle(t("settings.title"));
  const path = `/v1/knowledge-bases/${encodeURIComponent(knowledgeBase)}`;
  const detail = useResource<KnowledgeBaseOut>(isAdmin.value ? path : null);
  const [isSaved, setSaved] = useState(false);
  const [forms, setForms] = useState(0);
  const reload = (hasSaved: boolean) => {
    setSaved(hasSaved);
    setForms(forms + 1);
    detail.reload();
  };
  return (
    <>
      <ScreenHead
        title={t("settings.title")}
        parents={listParents(knowledgeBase)}
        actions={
          <a class="button" href={buildPath(["knowledge-bases", knowledgeBase, "index"])}>
            {t("index.title")}
          </a>
        }
      />
      <p role="status" class={isSaved ? "notice" : "hidden"}>
        {isSaved && t("settings.saved")}
      </p>
      {isAdmin.value ? (
        <Loaded resource={detail}>
          {(item) => (
            <>
              <ChangeForm key={`${detail.etag} ${forms}`} item={item} etag={detail.etag} path={path} reload={reload} />
              <DeletionSection
                name={item.name}
                path={path}
                hint={t("settings.deleteHint")}
                warning={t("settings.deleteWarning", {
                  documents: tn("documents.count", item.document_count),
                  chunks: tn("chunks.count", item.chunk_count),
                })}
                label={t("settings.deleteOpen")}
                receiptParts={["knowledge-bases"]}
              />
            </>
          )}
        </Loaded>
      ) : (
        <NoPermission>{t("settings.needsAdmin")}</NoPermission>
      )}
    </>
  );
}

function ChangeForm(props: { item: KnowledgeBaseOut; etag: string | null; path: string; reload: (hasSaved: boolean) => void }) {
  const { kind, ...before } = readSettings(props.item);
  return (
    <SettingsForm<KnowledgeBaseOut>
      schemaName="KnowledgeBaseUpdate"
      adjust={(schema) => fitToKind(schema, kind)}
      initial={before}
      method="PATCH"
      path={props.path}
      ifMatch={props.etag}
      buildBody={(value) => buildChangeBody(before, value)}
      label={t("settings.save")}
      titles={SETTING_TITLES}
      done={() => props.reload(true)}
      loadAgain={() => props.reload(false)}
    >
      <p class="muted">{t("settings.reindexHint")}</p>
    </SettingsForm>
  );
}
