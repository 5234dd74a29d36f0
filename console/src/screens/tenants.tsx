// Tenants of the service, newest first.
import { useResource } from "../api/resource";
import type { TenantList } from "../api/schema";
import { useTitle } from "../app";
import { ScreenHead } from "../components/frame";
import { Pages } from "../components/pages";
import { DataTable, Time } from "../components/parts";
import { Receipt } from "../components/receipt";
import { EmptyState, Loaded } from "../components/states";
import { t } from "../i18n";
import { buildPath, location } from "../router";

/** Links to the screens above the list of tenants, and to the list for screens below it. */
export function listTenantParents(isBelow: boolean) {
  const parents = [{ label: t("operation.title"), href: buildPath(["operator"]) }];
  return isBelow ? [...parents, { label: t("tenants.title"), href: buildPath(["operator", "tenants"]) }] : parents;
}

export function TenantsScreen() {
  useTitle(t("tenants.title"));
  const { query } = location.value;
  const deletion = query.get("deletion");
  const list = useResource<TenantList>("/v1/tenants", { cursor: query.get("cursor") });
  return (
    <>
      <ScreenHead
        title={t("tenants.title")}
        parents={listTenantParents(false)}
        actions={
          <a class="button primary" href={buildPath(["operator", "create-tenant"])}>
            {t("tenants.new")}
          </a>
        }
      />
      {deletion && <Receipt id={deletion} />}
      <Loaded resource={list}>
        {({ items, next_cursor: nextCursor }) => (
          <>
            {items.length === 0 ? (
              <EmptyState title={t(nextCursor ? "tenants.emptyPage" : "tenants.empty")} />
            ) : (
              <DataTable label={t("tenants.title")} head={<Head />}>
                {items.map((tenant) => (
                  <tr key={tenant.id}>
                    <th scope="row">
                      <a href={buildPath(["operator", "tenants", tenant.id])}>{tenant.name}</a>
                    </th>
                    <td>
                      <code>{tenant.id}</code>
                    </td>
                    <td>
                      <Time value={tenant.created_at} />
                    </td>
                  </tr>
                ))}
              </DataTable>
            )}
            <Pages parts={["operator", "tenants"]} nextCursor={nextCursor} />
          </>
        )}
      </Loaded>
    </>
  );
}

function Head() {
  return (
    <>
      <th scope="col">{t("column.name")}</th>
      <th scope="col">{t("document.id")}</th>
      <th scope="col">{t("tenants.created")}</th>
    </>
  );
}
