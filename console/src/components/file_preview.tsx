// Preview of a chosen file: its quality, its chunks, and two chunkings side by side.
import { useEffect, useRef, useState } from "preact/hooks";
import { readChunking, usePreview, type Chunking, type PreviewState } from "../api/preview";
import type { FieldFault } from "../api/client";
import type { CapabilitiesOut, KnowledgeBaseOut } from "../api/schema";
import type { UploadItem } from "../api/upload_queue";
import { t } from "../i18n";
import { buildPath, location, navigate } from "../router";
import { ChunkComparison } from "./chunk_comparison";
import { ChunkingFields } from "./chunking_fields";
import { PreviewQuality } from "./preview_quality";
import { PreviewChunks } from "./preview_chunks";
import { Section } from "./parts";
import { ErrorState, LoadingState } from "./states";

interface PreviewProps {
  item: UploadItem;
  knowledgeBase: KnowledgeBaseOut;
  capabilities: CapabilitiesOut;
  close: () => void;
}

export function FilePreview({ item, knowledgeBase, capabilities, close }: PreviewProps) {
  const { query } = location.value;
  const first = readChunking(query.get("first"));
  const second = readChunking(query.get("second"));
  const firstField = first
    ? { name: "chunking" as const, value: JSON.stringify(first) }
    : { name: "knowledge_base" as const, value: knowledgeBase.name };
  const states = [
    usePreview(item.file, firstField),
    usePreview(item.file, second && { name: "chunking", value: JSON.stringify(second) }),
  ] as const;
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => element.current?.focus(), [item]);
  const names = [first?.strategy ?? t("preview.ofKnowledgeBase", { strategy: knowledgeBase.chunking.strategy }), second?.strategy];
  const closeButton = (
    <button type="button" class="button" onClick={close}>
      {t("action.close")}
    </button>
  );
  return (
    <div ref={element} tabIndex={-1} class="preview">
      <Section title={t("preview.title", { path: item.path })} actions={closeButton}>
        <ChunkingForm
          knowledgeBase={knowledgeBase}
          capabilities={capabilities}
          chosen={[first, second]}
          errors={[states[0].error?.errors ?? [], states[1].error?.errors ?? []]}
        />
        <FileFacts states={states} />
        {second && states[0].data && states[1].data && (
          <ChunkComparison names={[names[0] ?? "", second.strategy]} previews={[states[0].data, states[1].data]} />
        )}
      </Section>
      <div class={second ? "preview-columns two" : "preview-columns"}>
        <Column name={names[0] ?? ""} state={states[0]} other={second ? states[1] : null} />
        {second && <Column name={second.strategy} state={states[1]} other={states[0]} />}
      </div>
    </div>
  );
}

/** The parser is the same for both chunkings, so what it found is shown once. */
function FileFacts({ states }: { states: readonly PreviewState[] }) {
  const data = states.find((state) => state.data)?.data;
  return data ? <PreviewQuality preview={data} /> : null;
}

function Column({ name, state, other }: { name: string; state: PreviewState; other: PreviewState | null }) {
  return (
    <Section title={t("preview.chunksOf", { name })}>
      {state.error ? (
        <ErrorState error={state.error} />
      ) : state.data ? (
        <PreviewChunks name={name} preview={state.data} other={other?.data ?? null} />
      ) : (
        <LoadingState />
      )}
    </Section>
  );
}

/** Both chunkings; they go to the address when the form is sent, so that a comparison can be shared. */
function ChunkingForm(props: {
  knowledgeBase: KnowledgeBaseOut;
  capabilities: CapabilitiesOut;
  chosen: [Chunking | null, Chunking | null];
  errors: [FieldFault[], FieldFault[]];
}) {
  const { chunkers } = props.capabilities;
  const [first, setFirst] = useState(props.chosen[0]);
  const [second, setSecond] = useState(props.chosen[1]);
  const compare = (event: Event) => {
    event.preventDefault();
    const parts = ["knowledge-bases", props.knowledgeBase.name, "upload"];
    const query = { first: first && JSON.stringify(first), second: second && JSON.stringify(second) };
    navigate(buildPath(parts, query), { replace: true });
  };
  const { strategy } = props.knowledgeBase.chunking;
  return (
    <form class="chunking-form" onSubmit={compare}>
      <div class="preview-columns two">
        <ChunkingFields
          legend={t("preview.first")}
          none={t("preview.ofKnowledgeBase", { strategy })}
          chunkers={chunkers}
          value={first}
          errors={props.errors[0]}
          change={setFirst}
        />
        <ChunkingFields
          legend={t("preview.second")}
          none={t("preview.noComparison")}
          chunkers={chunkers}
          value={second}
          errors={props.errors[1]}
          change={setSecond}
        />
      </div>
      <div class="actions">
        <button type="submit" class="button primary">
          {t("preview.run")}
        </button>
      </div>
    </form>
  );
}
