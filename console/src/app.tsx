// The screen of the address: sign-in without a key, else the frame with a screen.
import { useEffect, useState } from "preact/hooks";
import { ApiError, request } from "./api/client";
import type { CallerOut } from "./api/schema";
import { Frame } from "./components/frame";
import { ErrorState, LoadingState } from "./components/states";
import { language, t } from "./i18n";
import { pathParts } from "./router";
import { caller, getKey, hasKey, signOut } from "./session";
import { AgentScreen } from "./screens/agent";
import { AgentsScreen } from "./screens/agents";
import { ApiKeysScreen } from "./screens/api_keys";
import { AuditEventsScreen } from "./screens/audit_events";
import { DeletionsScreen } from "./screens/deletions";
import { CreateKnowledgeBaseScreen } from "./screens/create_knowledge_base";
import { DocumentScreen } from "./screens/document";
import { DocumentsScreen } from "./screens/documents";
import { EvaluationScreen } from "./screens/evaluation";
import { EvaluationsScreen } from "./screens/evaluations";
import { GoldenSetScreen } from "./screens/golden_set";
import { GoldenSetsScreen } from "./screens/golden_sets";
import { JobsScreen } from "./screens/jobs";
import { KnowledgeBaseIndexScreen } from "./screens/knowledge_base_index";
import { KnowledgeBaseSettingsScreen } from "./screens/knowledge_base_settings";
import { KnowledgeBasesScreen } from "./screens/knowledge_bases";
import { NotFoundScreen } from "./screens/not_found";
import { OperatorScreens } from "./screens/operator";
import { OverviewScreen } from "./screens/overview";
import { PlaygroundScreen } from "./screens/playground";
import { SignInScreen } from "./screens/sign_in";
import { UploadScreen } from "./screens/upload";

export function App() {
  useEffect(() => {
    document.documentElement.lang = language.value;
  }, [language.value]);
  if (!hasKey.value) return <SignInScreen />;
  return <SignedIn />;
}

function SignedIn() {
  const error = useCaller();
  if (error) {
    return (
      <main class="centered">
        <div>
          <h1 class="product">{t("product.name")}</h1>
          <ErrorState error={error.shown} retry={error.retry} />
          <button type="button" class="button" onClick={() => signOut()}>
            {t("action.signOut")}
          </button>
        </div>
      </main>
    );
  }
  if (!caller.value) return <main class="centered"><LoadingState /></main>;
  return (
    <Frame>
      <Screen />
    </Frame>
  );
}

/** Load who the key belongs to; a rejected key ends the session in the API client. */
function useCaller() {
  const [error, setError] = useState<ApiError | null>(null);
  const [attempt, setAttempt] = useState(0);
  const key = getKey();
  useEffect(() => {
    const controller = new AbortController();
    setError(null);
    request<CallerOut>("/v1/me", { signal: controller.signal }).then(
      ({ data }) => (caller.value = data),
      (failure: unknown) => {
        if (!controller.signal.aborted && failure instanceof ApiError) setError(failure);
      },
    );
    return () => controller.abort();
  }, [key, attempt]);
  return error && { shown: error, retry: () => setAttempt(attempt + 1) };
}

function Screen() {
  const [first, second, third, fourth, ...rest] = pathParts.value;
  if (first === undefined) return <OverviewScreen />;
  if (first === "search" && second === undefined) return <PlaygroundScreen />;
  if (first === "golden-sets" && third === undefined) {
    return second === undefined ? <GoldenSetsScreen /> : <GoldenSetScreen setId={second} />;
  }
  if (first === "evaluations" && third === undefined) {
    return second === undefined ? <EvaluationsScreen /> : <EvaluationScreen evaluationId={second} />;
  }
  if (first === "jobs" && second === undefined) return <JobsScreen />;
  if (first === "api-keys" && second === undefined) return <ApiKeysScreen />;
  if (first === "audit-events" && second === undefined) return <AuditEventsScreen />;
  if (first === "deletions" && third === undefined) return <DeletionsScreen deletionId={second} />;
  if (first === "operator") return <OperatorScreens parts={pathParts.value.slice(1)} />;
  if (first === "agents" && third === undefined) {
    return second === undefined ? <AgentsScreen /> : <AgentScreen key={second} agentId={second} />;
  }
  if (first === "create-knowledge-base" && second === undefined) return <CreateKnowledgeBaseScreen />;
  if (first === "knowledge-bases" && rest.length === 0) {
    if (second === undefined) return <KnowledgeBasesScreen />;
    if (third === undefined) return <DocumentsScreen knowledgeBase={second} />;
    if (third === "upload" && fourth === undefined) return <UploadScreen knowledgeBase={second} />;
    if (third === "settings" && fourth === undefined) return <KnowledgeBaseSettingsScreen knowledgeBase={second} />;
    if (third === "index" && fourth === undefined) return <KnowledgeBaseIndexScreen knowledgeBase={second} />;
    if (third === "documents" && fourth !== undefined) {
      return <DocumentScreen knowledgeBase={second} documentId={fourth} />;
    }
  }
  return <NotFoundScreen />;
}

/** Set the title of the tab for a screen. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · ${t("product.name")}`;
  }, [title, language.value]);
}
