// Lines of an agent on a terminal. What an agent prints may hold escape sequences, which would move the cursor, set the
// title or fill the clipboard: they are made visible instead.

const LONGEST = 4 << 20;
const LONGEST_PRINTED = 1 << 20;
const CONTROL =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]/gu;
export const [RED, GREEN, YELLOW, BLUE, CYAN, GRAY] = ["31", "32", "33", "34", "36", "90"];

export const isMap = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
export const mapOf = (value) => (isMap(value) ? value : {});
export const mapsOf = (value) => (Array.isArray(value) ? value.filter(isMap) : []);
export const textOf = (value) => (typeof value === "string" ? value : "");

/** One line as plain text; null where people need not see it. `segmentsOf(event)` gives [colour, text] pairs. */
export function formatLine(segmentsOf, line, debug = false) {
  const shown = segments(segmentsOf, line, debug).map(([, text]) => text);
  return shown.length > 0 ? shown.join("\n") : null;
}

/** The same, printed in colour; nothing in it that a terminal obeys but the colours. */
export function printLine(segmentsOf, line, debug = false) {
  for (const [colour, text] of segments(segmentsOf, line, debug)) {
    const shown = neutral(text);
    console.log(colour && process.stdout.isTTY ? `\x1b[${colour}m${shown}\x1b[0m` : shown);
  }
}

export function neutral(text) {
  return text.replace(CONTROL, (found) => {
    const code = found.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    const number = code.toString(16).toUpperCase();
    return code < 0x100 ? `<${number.padStart(2, "0")}>` : `<U+${number.padStart(4, "0")}>`;
  });
}

export function toolCall(name, input) {
  const call = [YELLOW, `tool_call: ${name || "unknown"}`];
  if (input === undefined || input === null) return [call];
  return [call, [GRAY, JSON.stringify(input, null, 2).slice(0, LONGEST_PRINTED)]];
}

/** As JSON on one line, with spaces. A line feed in it can only be one between two values. */
export function onOneLine(value) {
  const text = JSON.stringify(value, null, 1);
  const joined = text.replace(/([{[])\n */g, "$1").replace(/\n *([}\]])/g, "$1").replace(/,\n */g, ", ");
  return joined.slice(0, LONGEST_PRINTED);
}

function segments(segmentsOf, line, debug) {
  const plain = line.trim();
  if (!plain) return [];
  let event;
  try {
    event = plain.length > LONGEST ? undefined : JSON.parse(plain);
  } catch {
    event = undefined;
  }
  // Also what is JSON, but no object: somebody printed it.
  if (!isMap(event)) return [["", plain]];
  const found = segmentsOf(event);
  return found.length > 0 || !debug ? found : [[GRAY, plain]];
}
