// The states of a screen without data: loading, empty, error, no permission.
import type { ComponentChildren } from "preact";
import type { ApiError } from "../api/client";
import type { Resource } from "../api/resource";
import { t } from "../i18n";

export function LoadingState() {
  return (
    <div class="state" role="status">
      <span class="spinner" aria-hidden="true" />
      <p>{t("state.loading")}</p>
    </div>
  );
}

export function EmptyState({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <p class="state-title">{title}</p>
      {children}
    </div>
  );
}

export function ErrorState({ error, retry }: { error: ApiError; retry?: () => void }) {
  const title =
    error.status === 403
      ? t("state.forbidden")
      : error.status === 404
        ? t("state.missing")
        : error.status === 0
          ? t("state.unreachable")
          : t("state.failed");
  return (
    <div class="state" role="alert">
      <p class="state-title">{title}</p>
      {error.status !== 0 && <p class="muted">{error.message}</p>}
      {error.requestId && (
        <p class="muted small">
          {t("state.request")} <code>{error.requestId}</code>
        </p>
      )}
      {retry && error.status !== 403 && (
        <button type="button" class="button" onClick={retry}>
          {t("action.retry")}
        </button>
      )}
    </div>
  );
}

export function NoPermission({ children }: { children: ComponentChildren }) {
  return (
    <div class="state">
      <p class="state-title">{t("state.forbidden")}</p>
      <p class="muted">{children}</p>
    </div>
  );
}

/** Show the data of a resource, or the state that it is in. */
export function Loaded<T>({ resource, children }: { resource: Resource<T>; children: (data: T) => ComponentChildren }) {
  if (resource.error) return <ErrorState error={resource.error} retry={resource.reload} />;
  if (resource.data === null) return <LoadingState />;
  return <>{children(resource.data)}</>;
}
