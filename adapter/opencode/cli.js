// Lines of OpenCode on a terminal.
import { GREEN, RED, formatLine as format, mapOf, onOneLine, printLine, textOf, toolCall } from "../source/terminal.js";

export const type = "opencode_k8s";

/** As plain text; null where people need not see it. */
export const formatLine = (line, debug = false) => format(segmentsOf, line, debug);
/** Prints one line of an agent's log. */
export const formatStdoutEvent = (line, debug) => printLine(segmentsOf, line, debug);
export const cliAdapter = { type, formatStdoutEvent };
export default cliAdapter;

function segmentsOf(event) {
  const part = mapOf(event.part);
  if (event.type === "text" && textOf(part.text)) return [[GREEN, `assistant: ${part.text}`]];
  if (event.type === "error" && event.error) return [[RED, `error: ${onOneLine(event.error)}`]];
  if (event.type !== "tool_use" || Object.keys(part).length === 0) return [];
  const state = mapOf(part.state);
  const error = textOf(state.error);
  return [...toolCall(textOf(part.tool), state.input), ...(error ? [[RED, `tool_result (error)\n${error}`]] : [])];
}
