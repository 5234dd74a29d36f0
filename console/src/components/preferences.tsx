// Choice of language and theme.
import { chooseLanguage, language, t, type Language } from "../i18n";
import { chooseTheme, theme, type Theme } from "../theme";

export function Preferences() {
  return (
    <div class="preferences">
      <select
        aria-label={t("preferences.language")}
        value={language.value}
        onChange={(event) => chooseLanguage(event.currentTarget.value as Language)}
      >
        <option value="en">English</option>
        <option value="de">Deutsch</option>
      </select>
      <select
        aria-label={t("preferences.theme")}
        value={theme.value}
        onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}
      >
        <option value="system">{t("preferences.system")}</option>
        <option value="light">{t("preferences.light")}</option>
        <option value="dark">{t("preferences.dark")}</option>
      </select>
    </div>
  );
}
