// A tenant: its quotas, what PATCH can change with If-Match, and the deletion.
import { useState } from "preact/hooks";
import { listChanges, dropNulls, type Fields } from "../api/json_schema";
import { useResource } from "../api/resource";
import type { TenantDetailOut } from "../api/schema";
import { useTitle } from "../app";
import { DeletionSection } from "../components/deletion_section";
import { ScreenHead } from "../components/frame";
import { DataTable, Fact, Facts, Section, Time } from "../components/parts";
import { formatLimit, formatLimitName } from "../components/limit_names";
import { SettingsForm } from "../components/settings_form";
import { Loaded } from "../components/states";
import { t } from "../i18n";
import { TENANT_TITLES } from "./create_tenant";
import { listTenantParents } from "./tenants";

export function TenantScreen({ tenantId }: { tenantId: string }) {
  const path = `/v1/tenants/${encodeURIComponent(tenantId)}`;
  const detail = useResource<TenantDetailOut>(path);
  const [isSaved, setSaved] = useState(false);
  const [forms, setForms] = useState(0);
  const title = detail.data?.name ?? t("overview.tenant");
  useTitle(title);
  const reload = (hasSaved: boolean) => {
    setSaved(hasSaved);
    setForms(forms + 1);
    detail.reload();
  };
  return (
    <>
      <ScreenHead title={title} parents={listTenantParents(true)} />
      <p role="status" class={isSaved ? "notice" : "hidden"}>
        {isSaved && t("settings.saved")}
      </p>
      <Loaded resource={detail}>
        {(tenant) => (
          <>
            <Facts>
              <Fact term={t("document.id")}>
                <code>{tenant.id}</code>
              </Fact>
              <Fact term={t("tenants.created")}>
                <Time value={tenant.created_at} />
              </Fact>
              <Fact term={t("tenants.sqlViews")}>{t(tenant.sql_views ? "form.yes" : "form.no")}</Fact>
            </Facts>
            <Quotas tenant={tenant} />
            <Section title={t("settings.title")}>
              <ChangeForm key={`${detail.etag} ${forms}`} tenant={tenant} etag={detail.etag} path={path} reload={reload} />
            </Section>
            <DeletionSection
              name={tenant.name}
              path={path}
              hint={t("tenants.deleteHint")}
              warning={t("tenants.deleteWarning")}
              label={t("tenants.deleteOpen")}
              receiptParts={["operator", "tenants"]}
            />
          </>
        )}
      </Loaded>
    </>
  );
}

function Quotas({ tenant }: { tenant: TenantDetailOut }) {
  return (
    <Section title={t("tenants.quotas")}>
      <DataTable
        label={t("tenants.quotas")}
        head={
          <>
            <th scope="col">{t("overview.limit")}</th>
            <th scope="col" class="number">{t("overview.allowed")}</th>
          </>
        }
      >
        {Object.entries(tenant.quotas).map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{formatLimitName(name)}</th>
            <td class="number">
              {value === null || value === undefined ? <span class="muted">{t("form.default")}</span> : formatLimit(name, value)}
            </td>
          </tr>
        ))}
      </DataTable>
    </Section>
  );
}

/** Only what differs is sent. A quota that was cleared is null, which brings back the default of the service. */
function buildChanges(before: Fields, after: Fields): Fields {
  const { quotas, ...changes } = listChanges(before, after);
  if (quotas === undefined) return changes;
  return { ...changes, quotas: listChanges(before.quotas as Fields, (after.quotas ?? {}) as Fields) };
}

function ChangeForm(props: { tenant: TenantDetailOut; etag: string | null; path: string; reload: (hasSaved: boolean) => void }) {
  const { name, quotas, sql_views } = props.tenant;
  const before: Fields = { name, quotas: dropNulls(quotas), sql_views };
  return (
    <SettingsForm<TenantDetailOut>
      schemaName="TenantUpdate"
      initial={before}
      method="PATCH"
      path={props.path}
      ifMatch={props.etag}
      buildBody={(value) => buildChanges(before, value)}
      label={t("settings.save")}
      titles={TENANT_TITLES}
      done={() => props.reload(true)}
      loadAgain={() => props.reload(false)}
    />
  );
}
