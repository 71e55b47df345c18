// Reads calls from standard input, one JSON object a line {fn, type, input}, and answers each with a line of JSON. The
// parsers are evaluated as the web UI does it: as text, in a function of their own.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { sessionCodec } from "../../../adapter/source/session.js";

const at = (path) => new URL(`../../../adapter/${path}`, import.meta.url);

async function functionsOf(type) {
  const exports = {};
  const text = readFileSync(at(`${type}/ui-parser.cjs`), "utf8");
  new Function("exports", "module", "self", "globalThis", text)(exports, { exports }, {}, {});
  const cli = await import(at(`${type}/cli.js`));
  const codec = sessionCodec(JSON.parse(readFileSync(at(`${type}/described.json`), "utf8")).session);
  return {
    ui_parse_line: ({ line, ts }) => exports.parseStdoutLine(line, ts),
    cli_format_line: (line) => cli.formatLine(line),
    cli_format_line_debug: (line) => cli.formatLine(line, true),
    session_deserialize: codec.deserialize,
    session_serialize: codec.serialize,
    session_display_id: codec.getDisplayId,
  };
}

const FUNCTIONS = { claude: await functionsOf("claude"), opencode: await functionsOf("opencode") };
for await (const line of createInterface({ input: process.stdin })) {
  const { fn, type, input } = JSON.parse(line);
  const result = JSON.stringify(FUNCTIONS[type][fn](input));
  // Lone surrogates are no UTF-8: as escapes they arrive.
  const escaped = (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
  process.stdout.write(`${result.replace(/[\u007f-\uffff]/g, escaped)}\n`);
}
