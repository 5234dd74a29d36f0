// Form of a new tenant. Its first key is shown once, and only in the memory of this screen.
import { useState } from "preact/hooks";
import { dropNulls } from "../api/json_schema";
import type { NewTenantOut } from "../api/schema";
import { useTitle } from "../app";
import { CopyButton } from "../components/copy_button";
import { formatRole, ScreenHead } from "../components/frame";
import { Fact, Facts } from "../components/parts";
import { SettingsForm } from "../components/settings_form";
import { t, type TextKey } from "../i18n";
import { buildPath } from "../router";
import type { Role } from "../session";
import { listTenantParents } from "./tenants";

export const TENANT_TITLES: Record<string, TextKey> = {
  name: "column.name",
  quotas: "tenants.quotas",
  sql_views: "tenants.sqlViews",
};

export function CreateTenantScreen() {
  useTitle(t("tenants.new"));
  const [created, setCreated] = useState<NewTenantOut | null>(null);
  return (
    <>
      <ScreenHead title={t("tenants.new")} parents={listTenantParents(true)} />
      {created ? (
        <FirstKey tenant={created} />
      ) : (
        <SettingsForm<NewTenantOut>
          schemaName="TenantCreate"
          initial={{}}
          method="POST"
          path="/v1/tenants"
          buildBody={dropNulls}
          canBeEmpty
          label={t("settings.create")}
          titles={TENANT_TITLES}
          done={({ data }) => setCreated(data)}
        />
      )}
    </>
  );
}

function FirstKey({ tenant }: { tenant: NewTenantOut }) {
  const { key, role } = tenant.api_key;
  return (
    <div class="first-key">
      <p class="notice" role="status">
        {t("tenants.keyOnce")}
      </p>
      <Facts>
        <Fact term={t("overview.tenant")}>
          <a href={buildPath(["operator", "tenants", tenant.id])}>{tenant.name}</a>
        </Fact>
        <Fact term={t("overview.role")}>{formatRole(role as Role)}</Fact>
      </Facts>
      <pre class="code" tabIndex={0} data-testid="key">
        {key}
      </pre>
      <div class="actions">
        <CopyButton text={key} label={t("tenants.copyKey")} />
      </div>
    </div>
  );
}
