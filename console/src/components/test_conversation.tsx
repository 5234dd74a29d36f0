// A test conversation with an agent: the array that the agent gets, and the answer of the chat model.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useAction } from "../api/action";
import { request, type Reply } from "../api/client";
import { t, tn } from "../i18n";
import { buildPath, location, navigate } from "../router";
import { AnswerStream } from "./answer_stream";
import { SelectField, TextField } from "./fields";
import { Section } from "./parts";
import { EmptyState, ErrorState, LoadingState } from "./states";

const ROLES = ["customer", "agent", "tool", "user", "assistant", "system"];

interface Message {
  role: string;
  content: string;
}

interface Conversation {
  messages: Message[];
  sessionId: string;
  topK: string;
}

/** Read the conversation of the address; what is not understood is left out. */
function readConversation(query: URLSearchParams): Conversation {
  const sessionId = query.get("session_id") ?? "";
  const topK = query.get("top_k") ?? "";
  try {
    const given = JSON.parse(query.get("messages") ?? "[]") as Partial<Message>[];
    const messages = given.map(({ role, content }) => ({ role: String(role ?? ""), content: String(content ?? "") }));
    if (messages.length) return { messages, sessionId, topK };
  } catch {
    // Another address than the console has made.
  }
  return { messages: [{ role: "customer", content: "" }], sessionId, topK };
}

/** Return the fields that both requests have. */
function buildFields({ messages, sessionId, topK }: Conversation, agentId: string): Record<string, unknown> {
  const fields: Record<string, unknown> = { agent_id: agentId };
  if (sessionId) fields.session_id = sessionId;
  if (topK) fields.top_k = /^\d+$/.test(topK) ? Number(topK) : topK;
  return { ...fields, messages };
}

export function TestConversation({ agentId }: { agentId: string }) {
  const [talk, setTalk] = useState(() => readConversation(location.value.query));
  const [passages, setPassages] = useState<Reply<string[]> | null>(null);
  const [answerBody, setAnswerBody] = useState<string | null>(null);
  const [answers, setAnswers] = useState(0);
  const fields = buildFields(talk, agentId);
  const body = JSON.stringify(fields, null, 2);
  const search = useAction(async () => {
    setPassages(null);
    setPassages(await request<string[]>("/v1/agent-search", { method: "POST", body }));
  });
  // The address has the conversation of the last run, so that it can be shared.
  const keep = () => {
    const { sessionId: session_id, topK: top_k, messages } = talk;
    navigate(buildPath(["agents", agentId], { messages: JSON.stringify(messages), session_id, top_k }), { replace: true });
  };
  const runSearch = () => {
    keep();
    void search.run();
  };
  const runAnswer = () => {
    keep();
    setAnswerBody(JSON.stringify({ ...fields, stream: true }, null, 2));
    setAnswers(answers + 1);
  };
  return (
    <Section title={t("agents.test")}>
      <form
        class="search-form"
        onSubmit={(event) => {
          event.preventDefault();
          runSearch();
        }}
      >
        <MessageFields talk={talk} change={setTalk} />
        <div class="actions">
          <button type="submit" class="button primary" disabled={search.isBusy}>
            {t("agents.search")}
          </button>
          <button type="button" class="button" onClick={runAnswer}>
            {t("agents.answer")}
          </button>
        </div>
      </form>
      <details>
        <summary>{t("form.request")}</summary>
        <p class="muted small">
          <code>POST /v1/agent-search</code>
        </p>
        <pre class="code" tabIndex={0} data-testid="agent-body">{body}</pre>
      </details>
      {search.isBusy && <LoadingState />}
      {search.error && <ErrorState error={search.error} retry={runSearch} />}
      {passages && <Passages reply={passages} />}
      {answerBody !== null && <AnswerStream key={answers} body={answerBody} />}
    </Section>
  );
}

function MessageFields({ talk, change }: { talk: Conversation; change: (talk: Conversation) => void }) {
  const { messages } = talk;
  const list = useRef<HTMLOListElement>(null);
  const count = useRef(messages.length);
  useLayoutEffect(() => {
    // A new message gets the focus, which its button had.
    if (messages.length > count.current) list.current?.querySelector<HTMLElement>("li:last-child textarea")?.focus();
    count.current = messages.length;
  }, [messages.length]);
  const setMessage = (index: number, changed: Message) =>
    change({ ...talk, messages: messages.map((message, place) => (place === index ? changed : message)) });
  const add = () => change({ ...talk, messages: [...messages, { role: "customer", content: "" }] });
  const remove = (index: number) => change({ ...talk, messages: messages.filter((_, place) => place !== index) });
  return (
    <>
      <ol class="messages" ref={list}>
        {messages.map((message, index) => (
          <li key={index}>
            <SelectField
              label={t("agents.role")}
              value={message.role}
              change={(role) => setMessage(index, { ...message, role })}
              choices={[...new Set([...ROLES, message.role])].map((role) => ({ value: role, label: role }))}
            />
            <TextField
              label={t("agents.message", { number: index + 1 })}
              rows={2}
              value={message.content}
              change={(content) => setMessage(index, { ...message, content })}
            />
            {messages.length > 1 && (
              <button type="button" class="button" aria-label={t("agents.removeOne", { number: index + 1 })} onClick={() => remove(index)}>
                {t("agents.remove")}
              </button>
            )}
          </li>
        ))}
      </ol>
      <div>
        <button type="button" class="button" onClick={add}>
          {t("agents.add")}
        </button>
      </div>
      <div class="fields">
        <TextField label="session_id" value={talk.sessionId} change={(sessionId) => change({ ...talk, sessionId })} />
        <TextField label="top_k" value={talk.topK} change={(topK) => change({ ...talk, topK })} placeholder={t("form.default")} />
      </div>
    </>
  );
}

/** The passages one by one, and the reply as the agent gets it. */
function Passages({ reply }: { reply: Reply<string[]> }) {
  return (
    <Section title={t("agents.passages")} actions={<span class="muted">{tn("results.count", reply.data.length)}</span>}>
      {reply.data.length === 0 ? (
        <EmptyState title={t("agents.nothing")} />
      ) : (
        <ol class="hits">
          {reply.data.map((text, index) => (
            <li key={index}>
              <p class="hit text">{text}</p>
            </li>
          ))}
        </ol>
      )}
      <p class="muted small">{t("playground.raw")}</p>
      <pre class="code" tabIndex={0} data-testid="agent-reply">{reply.text}</pre>
    </Section>
  );
}
