"use strict";
// Lines of Claude Code as entries of a transcript. The web UI evaluates this text by itself in a worker, as CommonJS:
// it must not import anything. A line that says nothing else is shown as it is.

const LONGEST = 4 << 20;

function decode(line) {
  if (typeof line !== "string" || line.length > LONGEST) return null;
  try {
    return JSON.parse(line.replace(/^[ \t\r\n\ufeff]+|[ \t\r\n\ufeff]+$/g, ""));
  } catch {
    return null;
  }
}

const isMap = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const mapOf = (value) => (isMap(value) ? value : {});
const mapsOf = (value) => (Array.isArray(value) ? value.filter(isMap) : []);
const textOf = (value) => (typeof value === "string" ? value : "");
const amountOf = (value) => (typeof value === "number" && Number.isFinite(value) ? value : 0);

function contentOf(block) {
  if (typeof block.content === "string") return block.content;
  const texts = mapsOf(block.content).filter((one) => typeof one.text === "string");
  return texts.map((one) => one.text).join("\n");
}

function errorOf(error) {
  if (typeof error === "string") return error.trim();
  if (!isMap(error)) return "";
  const named = [error.message, error.error, error.code].map((one) => textOf(one).trim());
  return named.find((text) => text) || JSON.stringify(error);
}

function assistantEntry(block, ts) {
  if (block.type === "text" && textOf(block.text)) return { kind: "assistant", ts, text: block.text };
  if (block.type === "thinking" && textOf(block.thinking)) return { kind: "thinking", ts, text: block.thinking };
  if (block.type !== "tool_use") return null;
  const toolUseId = textOf(block.id) || textOf(block.tool_use_id);
  return { kind: "tool_call", ts, name: textOf(block.name) || "unknown", toolUseId, input: block.input ?? {} };
}

function userEntry(block, ts) {
  if (block.type === "text" && textOf(block.text)) return { kind: "user", ts, text: block.text };
  if (block.type !== "tool_result") return null;
  const toolUseId = textOf(block.tool_use_id);
  return { kind: "tool_result", ts, toolUseId, content: contentOf(block), isError: block.is_error === true };
}

function resultEntry(event, ts) {
  const usage = mapOf(event.usage);
  return {
    kind: "result",
    ts,
    text: textOf(event.result),
    inputTokens: amountOf(usage.input_tokens),
    outputTokens: amountOf(usage.output_tokens),
    cachedTokens: amountOf(usage.cache_read_input_tokens),
    costUsd: amountOf(event.total_cost_usd),
    subtype: textOf(event.subtype),
    isError: event.is_error === true,
    errors: (Array.isArray(event.errors) ? event.errors : []).map(errorOf).filter((text) => text),
  };
}

function entriesOf(event, ts) {
  const blocks = mapsOf(mapOf(event.message).content);
  switch (event.type) {
    case "system":
      if (event.subtype !== "init") return [];
      return [{ kind: "init", ts, model: textOf(event.model) || "unknown", sessionId: textOf(event.session_id) }];
    case "assistant":
      return blocks.map((block) => assistantEntry(block, ts)).filter((entry) => entry);
    case "user":
      return blocks.map((block) => userEntry(block, ts)).filter((entry) => entry);
    case "result":
      return [resultEntry(event, ts)];
    default:
      return [];
  }
}

function parseStdoutLine(line, ts) {
  const found = entriesOf(mapOf(decode(line)), ts);
  return found.length > 0 ? found : [{ kind: "stdout", ts, text: line }];
}

exports.parseStdoutLine = parseStdoutLine;
