// Lines of Claude Code on a terminal.
import {
  BLUE, CYAN, GRAY, GREEN, RED, YELLOW,
  formatLine as format, isMap, mapOf, mapsOf, printLine, textOf, toolCall,
} from "../source/terminal.js";

export const type = "claude_k8s";

/** As plain text; null where people need not see it. */
export const formatLine = (line, debug = false) => format(segmentsOf, line, debug);
/** Prints one line of an agent's log. */
export const formatStdoutEvent = (line, debug) => printLine(segmentsOf, line, debug);
export const cliAdapter = { type, formatStdoutEvent };
export default cliAdapter;

function segmentsOf(event) {
  const blocks = mapsOf(mapOf(event.message).content);
  switch (event.type) {
    case "system":
      return event.subtype === "init" ? [[BLUE, begun(event)]] : [];
    case "assistant":
      return blocks.flatMap(assistant);
    case "user":
      return blocks.flatMap(user);
    case "result":
      return result(event);
    case "rate_limit_event":
      return [[YELLOW, rateLimit(mapOf(event.rate_limit_info))]];
    default:
      return [];
  }
}

function begun(event) {
  const session = textOf(event.session_id) ? `, session: ${event.session_id}` : "";
  return `Claude initialized (model: ${textOf(event.model) || "unknown"}${session})`;
}

function assistant(block) {
  if (block.type === "text" && textOf(block.text)) return [[GREEN, `assistant: ${block.text}`]];
  if (block.type === "thinking" && textOf(block.thinking)) return [[GRAY, `thinking: ${block.thinking}`]];
  return block.type === "tool_use" ? toolCall(textOf(block.name), block.input) : [];
}

function user(block) {
  if (block.type !== "tool_result") return [];
  const failed = block.is_error === true;
  const head = [failed ? RED : CYAN, failed ? "tool_result (error)" : "tool_result"];
  const text = contentOf(block);
  return text ? [head, [failed ? RED : GRAY, text]] : [head];
}

function contentOf(block) {
  if (typeof block.content === "string") return block.content;
  const texts = mapsOf(block.content).filter((one) => typeof one.text === "string");
  return texts.map((one) => one.text).join("\n");
}

function result(event) {
  const text = textOf(event.result);
  const found = text ? [[GREEN, "result:"], ["", text]] : [];
  const subtype = textOf(event.subtype);
  const errors = (Array.isArray(event.errors) ? event.errors : []).map(errorOf).filter((one) => one);
  const failed = event.is_error === true;
  if (subtype.startsWith("error") || failed || errors.length > 0) {
    found.push([RED, `claude_result: subtype=${subtype || "unknown"} is_error=${failed}`]);
    if (errors.length > 0) found.push([RED, `claude_errors: ${errors.join(" | ")}`]);
  }
  const usage = mapOf(event.usage);
  const counts = { in: usage.input_tokens, out: usage.output_tokens, cached: usage.cache_read_input_tokens };
  const tokens = Object.entries(counts).map(([name, count]) => `${name}=${numberOf(count).toFixed(0)}`);
  found.push([BLUE, `tokens: ${tokens.join(" ")} cost=$${numberOf(event.total_cost_usd).toFixed(6)}`]);
  return found;
}

function errorOf(error) {
  if (typeof error === "string") return error.trim();
  if (!isMap(error)) return "";
  const named = [error.message, error.error, error.code].map((one) => textOf(one).trim());
  return named.find((text) => text) || JSON.stringify(error);
}

/** A JSON number, or a text that is one: a reader of lines need not be strict. */
function numberOf(value) {
  const isNumber = typeof value === "string" && /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(value);
  const found = isNumber ? Number(value) : value;
  return typeof found === "number" && Number.isFinite(found) ? found : 0;
}

function rateLimit(limit) {
  const [kind, status] = [limit.rateLimitType, limit.status].map((one) => textOf(one) || "unknown");
  const text = `rate_limit: type=${kind} status=${status}`;
  const at = limit.resetsAt;
  const known = typeof at === "number" && at >= 0 && at < 1e11;
  return known ? `${text} resets=${new Date(at * 1000).toISOString()}` : text;
}
