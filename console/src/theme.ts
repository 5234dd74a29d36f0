// Light or dark: as the system says, or as the person chose.
import { signal } from "@preact/signals";
import { readPreference, writePreference } from "./i18n";

export type Theme = "system" | "light" | "dark";
const STORED_THEME = "carrel.theme";

function readTheme(): Theme {
  const stored = readPreference(STORED_THEME);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export const theme = signal<Theme>(readTheme());

export function applyTheme(): void {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}

export function chooseTheme(chosen: Theme): void {
  writePreference(STORED_THEME, chosen === "system" ? null : chosen);
  theme.value = chosen;
  applyTheme();
}
