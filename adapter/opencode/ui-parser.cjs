"use strict";
// Lines of OpenCode as entries of a transcript. The web UI evaluates this text by itself in a worker, as CommonJS: it
// must not import anything. A line that says nothing else is shown as it is.

const LONGEST = 4 << 20;

function decode(line) {
  if (typeof line !== "string" || line.length > LONGEST) return null;
  try {
    return JSON.parse(line.replace(/^[ \t\r\n\ufeff]+|[ \t\r\n\ufeff]+$/g, ""));
  } catch {
    return null;
  }
}

const mapOf = (value) => (value !== null && typeof value === "object" && !Array.isArray(value) ? value : {});
const textOf = (value) => (typeof value === "string" ? value : "");
const amountOf = (value) => (typeof value === "number" && Number.isFinite(value) ? value : 0);

function toolEntries(part, ts) {
  const state = mapOf(part.state);
  const toolUseId = textOf(part.callID) || textOf(part.id);
  const call = { kind: "tool_call", ts, name: textOf(part.tool) || "unknown", toolUseId, input: state.input ?? {} };
  const error = textOf(state.error);
  if (!error && typeof state.output !== "string") return [call];
  return [call, { kind: "tool_result", ts, toolUseId, content: error || state.output, isError: error !== "" }];
}

function stepEntry(part, ts) {
  const tokens = mapOf(part.tokens);
  const sent = amountOf(tokens.input);
  const received = amountOf(tokens.output) + amountOf(tokens.reasoning);
  const cached = amountOf(mapOf(tokens.cache).read);
  const said = `tokens in=${sent} out=${received} cached=${cached}, cost=$${amountOf(part.cost).toFixed(6)}`;
  return { kind: "system", ts, text: `step: ${textOf(part.reason) || "end"}, ${said}` };
}

function errorText(error) {
  const tree = mapOf(error);
  const text = textOf(mapOf(tree.data).message) || textOf(tree.message);
  const name = textOf(tree.name) || textOf(error);
  return [name, text].map((one) => one.trim()).filter((one) => one).join(": ") || "unknown error";
}

function entriesOf(event, ts) {
  const part = mapOf(event.part);
  const text = textOf(part.text);
  switch (event.type) {
    case "text":
      return text ? [{ kind: "assistant", ts, text }] : [];
    case "reasoning":
      return text ? [{ kind: "thinking", ts, text }] : [];
    case "tool_use":
      return Object.keys(part).length > 0 ? toolEntries(part, ts) : [];
    case "step_finish":
      return [stepEntry(part, ts)];
    case "error":
      return [{ kind: "stderr", ts, text: errorText(event.error) }];
    default:
      return [];
  }
}

function parseStdoutLine(line, ts) {
  const found = entriesOf(mapOf(decode(line)), ts);
  return found.length > 0 ? found : [{ kind: "stdout", ts, text: line }];
}

exports.parseStdoutLine = parseStdoutLine;
