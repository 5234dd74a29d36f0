// The screens below /operator, which only the key of the operator opens.
import { useTitle } from "../app";
import { ScreenHead } from "../components/frame";
import { NoPermission } from "../components/states";
import { t } from "../i18n";
import { isOperator } from "../session";
import { CreateTenantScreen } from "./create_tenant";
import { NotFoundScreen } from "./not_found";
import { OperationScreen } from "./operation";
import { TenantScreen } from "./tenant";
import { TenantsScreen } from "./tenants";

export function OperatorScreens({ parts }: { parts: string[] }) {
  const [first, second, third] = parts;
  if (!isOperator.value) return <Forbidden />;
  if (first === undefined) return <OperationScreen />;
  if (first === "create-tenant" && second === undefined) return <CreateTenantScreen />;
  if (first === "tenants" && second === undefined) return <TenantsScreen />;
  if (first === "tenants" && second !== undefined && third === undefined) return <TenantScreen key={second} tenantId={second} />;
  return <NotFoundScreen />;
}

function Forbidden() {
  useTitle(t("operation.title"));
  return (
    <>
      <ScreenHead title={t("operation.title")} />
      <NoPermission>{t("operation.needsOperator")}</NoPermission>
    </>
  );
}
