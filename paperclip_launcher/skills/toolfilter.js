// Shortens what a tool gives back to an agent. Claude Code runs it after each use of a tool, with the event on stdin:
// node toolfilter.js BYTES. The answer replaces the tool's output only where it has the same shape as before, so
// texts are shortened where they stand. No answer leaves the output as it is. The same in Python: toolfilter.py.
'use strict';
const TEXTS = new Set(['content', 'text', 'stdout', 'stderr', 'output', 'result']);
const limit = Number(process.argv[2]);

const shorten = (text) => {
  const bytes = Buffer.from(text);
  if (bytes.length <= limit) return text;
  let end = limit;
  while (end > 0 && (bytes[end] & 0xc0) === 0x80) end -= 1;
  return `${bytes.toString('utf8', 0, end)}\n[...${bytes.length - end} bytes truncated by paperclip-rtk]`;
};

const walk = (value, isText) => {
  if (typeof value === 'string') return isText ? shorten(value) : value;
  if (Array.isArray(value)) return value.map((item) => walk(item, isText));
  // Half an image is none.
  if (value === null || typeof value !== 'object' || value.isImage === true) return value;
  const entries = Object.entries(value).map(([key, item]) => [key, walk(item, TEXTS.has(key))]);
  return Object.fromEntries(entries);
};

const answer = (input) => {
  const event = JSON.parse(input);
  const before = event.tool_response ?? event.tool_result;
  const after = walk(before, true);
  if (JSON.stringify(after) === JSON.stringify(before)) return '';
  // Else the agent is shown a copy that was kept of the whole output.
  if (!Array.isArray(after) && typeof after === 'object') {
    delete after.persistedOutputPath;
    delete after.persistedOutputSize;
  }
  const output = { hookEventName: 'PostToolUse', updatedToolOutput: after };
  return JSON.stringify({ hookSpecificOutput: output });
};

const pieces = [];
process.stdin.on('data', (piece) => pieces.push(piece));
process.stdin.on('end', () => {
  let out = '';
  try {
    if (limit > 0) out = answer(Buffer.concat(pieces).toString());
  } catch {
    // Not an event that this knows: the output stays as it is.
  }
  process.stdout.write(out);
});
