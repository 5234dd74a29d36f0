import { useTitle } from "../app";
import { ScreenHead } from "../components/frame";
import { t } from "../i18n";
import { buildPath } from "../router";

export function NotFoundScreen() {
  useTitle(t("notFound.title"));
  return (
    <>
      <ScreenHead title={t("notFound.title")} />
      <p>
        <a href={buildPath([])}>{t("notFound.back")}</a>
      </p>
    </>
  );
}
