// What the server's environment says of the launcher.

const DEFAULT_COMMAND = ["paperclip-launcher", "serve", "--stdio"];
const FIRST_WAIT_SECONDS = 60;
const PATIENCE_SECONDS = 3600;
// A person waits before the Test button.
const ASK_WAIT_MS = 3000;
// The server stores a result some ten milliseconds after it got it, and does not say when it has.
const STORED_MS = 2000;
// For the result of a run whose end is proven already.
const LAST_WORDS_MS = 2000;

/**
 * {socket, command, problem, …}: `socket` is "" where the launcher is a child, `problem` says what is wrong with a
 * variable ("" for nothing). Milliseconds: `firstWait` for a launcher that was not reached yet by a run, `patience` for
 * one that a run has lost, `askWait` for one that is asked something else, `stored` until a result is taken to be
 * stored, `lastWords` for the result of a cancelled run.
 */
export function readSettings(environment) {
  const socket = (environment.PAPERCLIP_LAUNCHER_SOCKET ?? "").trim();
  const { command, problem } = readCommand((environment.PAPERCLIP_LAUNCHER_COMMAND ?? "").trim());
  return {
    socket,
    command,
    problem: socket ? "" : problem,
    firstWait: 1000 * seconds(environment.PAPERCLIP_LAUNCHER_WAIT_SECONDS, FIRST_WAIT_SECONDS),
    patience: 1000 * seconds(environment.PAPERCLIP_LAUNCHER_PATIENCE_SECONDS, PATIENCE_SECONDS),
    askWait: ASK_WAIT_MS,
    stored: STORED_MS,
    lastWords: LAST_WORDS_MS,
  };
}

function readCommand(text) {
  if (!text) return { command: DEFAULT_COMMAND, problem: "" };
  try {
    const command = JSON.parse(text);
    const fine = Array.isArray(command) && command.length > 0 && command.every((one) => typeof one === "string" && one);
    if (fine) return { command, problem: "" };
  } catch {
    // Told below, with what is no list of texts.
  }
  return { command: [], problem: 'PAPERCLIP_LAUNCHER_COMMAND is no JSON list of texts such as ["paperclip-launcher"]' };
}

function seconds(text, otherwise) {
  const found = Number(text);
  return text && Number.isFinite(found) && found >= 0 ? found : otherwise;
}
