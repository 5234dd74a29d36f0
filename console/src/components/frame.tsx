// The frame of every screen after sign-in: navigation, caller, language and theme.
import type { ComponentChildren } from "preact";
import { t, type TextKey } from "../i18n";
import { buildPath, leaveScreen, location, pathParts } from "../router";
import { caller, canAdminister, isAdmin, canEvaluate, isOperator, role, signOut, type Role } from "../session";
import { Preferences } from "./preferences";

const ROLE_NAMES: Record<Role, TextKey> = {
  operator: "role.operator",
  admin: "role.admin",
  writer: "role.writer",
  reader: "role.reader",
};

export function formatRole(name: Role): string {
  return t(ROLE_NAMES[name]);
}

function NavLink({ parts, label }: { parts: string[]; label: string }) {
  const isCurrent = pathParts.value[0] === parts[0];
  return (
    <li>
      <a href={buildPath(parts)} aria-current={isCurrent ? "page" : undefined}>
        {label}
      </a>
    </li>
  );
}

export function Frame({ children }: { children: ComponentChildren }) {
  const own = caller.value;
  return (
    <div class="frame">
      <a class="skip" href="#main" data-external onClick={focusMain}>
        {t("nav.skip")}
      </a>
      <header class="sidebar">
        <div class="identity">
          <span class="product">{t("product.name")}</span>
          <span class="tenant" title={own?.tenant.id}>
            {own?.tenant.name}
          </span>
        </div>
        <nav aria-label={t("nav.label")}>
          <ul class="nav">
            <NavLink parts={[]} label={t("nav.overview")} />
            <NavLink parts={["knowledge-bases"]} label={t("nav.knowledgeBases")} />
            <NavLink parts={["search"]} label={t("nav.search")} />
            {canEvaluate.value && <NavLink parts={["golden-sets"]} label={t("nav.goldenSets")} />}
            {canEvaluate.value && <NavLink parts={["evaluations"]} label={t("nav.evaluations")} />}
            {canAdminister.value && <NavLink parts={["agents"]} label={t("nav.agents")} />}
            {canAdminister.value && <NavLink parts={["jobs"]} label={t("nav.jobs")} />}
            {canAdminister.value && <NavLink parts={["api-keys"]} label={t("apiKeys.title")} />}
            {canAdminister.value && <NavLink parts={["audit-events"]} label={t("audit.title")} />}
            {isAdmin.value && <NavLink parts={["deletions"]} label={t("deletions.title")} />}
            {isOperator.value && <NavLink parts={["operator"]} label={t("nav.operator")} />}
            <li>
              <a href={buildPath(["docs"])} data-external>
                {t("nav.reference")}
              </a>
            </li>
          </ul>
        </nav>
        <div class="account">
          <Preferences />
          <div class="caller">
            <span class="caller-name">{own?.key.name}</span>
            {role.value && <span class="muted small">{formatRole(role.value)}</span>}
          </div>
          <button type="button" class="button quiet" onClick={() => leaveScreen(signOut)}>
            {t("action.signOut")}
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1} key={location.value.path}>
        {children}
      </main>
    </div>
  );
}

function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** Head of a screen: its title, the way up and its actions. */
export function ScreenHead(props: {
  title: string;
  parents?: { label: string; href: string }[];
  note?: ComponentChildren;
  actions?: ComponentChildren;
}) {
  return (
    <div class="screen-head">
      {props.parents && (
        <nav class="crumbs" aria-label={t("nav.crumbs")}>
          {props.parents.map(({ label, href }) => (
            <a href={href} key={href}>
              {label}
            </a>
          ))}
        </nav>
      )}
      <div class="screen-title">
        <h1>{props.title}</h1>
        {props.actions && <div class="actions">{props.actions}</div>}
      </div>
      {props.note && <p class="muted">{props.note}</p>}
    </div>
  );
}
