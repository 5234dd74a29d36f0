// Form that adds an item to a golden set: a query or a conversation, and the ids of what is relevant.
import { useState } from "preact/hooks";
import { useAction } from "../api/action";
import { t } from "../i18n";
import { TextField } from "./fields";
import { Section } from "./parts";

interface RelevanceBody {
  document: string;
  chunk?: string;
}

export interface ItemBody {
  query?: string;
  messages?: { role: string; content: string }[];
  relevant: RelevanceBody[];
}

/** Return the body that adds an item: the body that is shown is the body that is sent. */
export const buildItemsBody = (item: ItemBody): string => JSON.stringify({ items: [item] }, null, 2);

/** Read a document, or a document and its chunk, from each line. */
function readRelevant(text: string): RelevanceBody[] {
  return text
    .split("\n")
    .map((line) => line.trim().split(/[\s,]+/))
    .filter(([document]) => document)
    .map(([document = "", chunk]) => (chunk ? { document, chunk } : { document }));
}

/** Read a conversation from lines such as `user: And for twins?`. A line without a role continues its message. */
function readMessages(text: string): { role: string; content: string }[] {
  const messages: { role: string; content: string }[] = [];
  for (const line of text.split("\n")) {
    const match = /^(user|customer|assistant|system|agent): ?(.*)$/.exec(line);
    const last = messages.at(-1);
    if (match) messages.push({ role: match[1] ?? "", content: match[2] ?? "" });
    else if (last) last.content += `\n${line}`;
    else if (line.trim()) messages.push({ role: "user", content: line });
  }
  return messages.map(({ role, content }) => ({ role, content: content.trim() }));
}

export function AddItemForm({ add }: { add: (item: ItemBody) => Promise<void> }) {
  const [query, setQuery] = useState("");
  const [isConversation, setConversation] = useState(false);
  const [relevant, setRelevant] = useState("");
  const question = isConversation ? { messages: readMessages(query) } : { query };
  const item = { ...question, relevant: readRelevant(relevant) };
  const action = useAction(async () => {
    await add(item);
    setQuery("");
    setRelevant("");
  });
  const submit = (event: Event) => {
    event.preventDefault();
    void action.run();
  };
  return (
    <Section title={t("golden.addItem")}>
      <form class="stacked" onSubmit={submit}>
        <fieldset class="check-list">
          <legend>{t("golden.kind")}</legend>
          {[false, true].map((value) => (
            <label class="check" key={String(value)}>
              <input type="radio" name="kind" checked={isConversation === value} onChange={() => setConversation(value)} />
              <span>{t(value ? "golden.conversation" : "golden.query")}</span>
            </label>
          ))}
        </fieldset>
        <TextField
          label={t(isConversation ? "golden.conversation" : "golden.query")}
          hint={t(isConversation ? "golden.conversationHint" : "golden.queryHint")}
          value={query}
          change={setQuery}
          rows={isConversation ? 4 : 2}
          required
        />
        <TextField
          label={t("golden.relevant")}
          hint={t("golden.relevantHint")}
          value={relevant}
          change={setRelevant}
          rows={3}
          required
        />
        <pre class="code" tabIndex={0} data-testid="body">{buildItemsBody(item)}</pre>
        {action.error && <p class="bad-text" role="alert">{action.error.message}</p>}
        <div>
          <button type="submit" class="button primary" disabled={action.isBusy}>
            {t("golden.add")}
          </button>
        </div>
      </form>
    </Section>
  );
}
