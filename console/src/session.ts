// The API key of this tab, and the caller that it belongs to.
import { computed, signal } from "@preact/signals";
import type { CallerOut } from "./api/schema";
import { decodePart } from "./router";

const STORED_KEY = "carrel.key";

/** The key: in memory, and in the storage of the tab only if the person asks for it. */
const key = signal<string | null>(null);

export const caller = signal<CallerOut | null>(null);
/** Reason of the last sign-out, for the sign-in screen. */
export const signOutReason = signal<"rejected" | null>(null);
export const hasKey = computed(() => key.value !== null);

export const getKey = (): string | null => key.peek();

export function signIn(newKey: string, options: { keep: boolean }): void {
  signOutReason.value = null;
  caller.value = null;
  if (options.keep) sessionStorage.setItem(STORED_KEY, newKey);
  else sessionStorage.removeItem(STORED_KEY);
  key.value = newKey;
}

export function signOut(reason: "rejected" | null = null): void {
  sessionStorage.removeItem(STORED_KEY);
  signOutReason.value = reason;
  caller.value = null;
  key.value = null;
}

/** Take the key of a link `#key=…`. The address loses it first, before any request is sent. */
function takeKeyOfLink(): boolean {
  const match = /^#key=(.+)$/.exec(window.location.hash);
  if (!match?.[1]) return false;
  history.replaceState(null, "", window.location.pathname + window.location.search);
  signIn(decodePart(match[1]).trim(), { keep: false });
  return true;
}

export function startSession(): void {
  window.addEventListener("hashchange", takeKeyOfLink);
  if (takeKeyOfLink()) return;
  key.value = sessionStorage.getItem(STORED_KEY);
}

export type Role = "operator" | "admin" | "writer" | "reader";
export const role = computed(() => (caller.value?.key.role ?? null) as Role | null);
/** The operator manages tenants and sees the whole service. */
export const isOperator = computed(() => role.value === "operator");
/** Admins change settings, if only of the knowledge bases of their key. */
export const isAdmin = computed(() => role.value === "admin" || role.value === "operator");
export const isRestricted = computed(() => {
  const own = caller.value?.key;
  return !!own && (own.knowledge_bases !== null || own.user_id !== null);
});
/** Everyone but readers uploads and previews. */
export const canWrite = computed(() => role.value !== null && role.value !== "reader");

/** Golden sets and evaluations name documents of the whole tenant, so restricted keys and readers do not use them. */
export const canEvaluate = computed(() => canWrite.value && !isRestricted.value);

/** Admins and operators read status and jobs of everything, so a restricted key does not. */
export const canAdminister = computed(
  () => isAdmin.value && !isRestricted.value,
);
