// The log of one run on its way to the server: in order, what waits in one call, and acknowledged once it is stored.

const MOST = 64 * 1024; // characters that the server stores of one call
const TRIES = 5;
const FIRST_PAUSE_MS = 200;
const QUIET_MS = 20 * 60_000; // the server wonders about a run that said nothing for an hour

export class Log {
  #ctx;
  #acknowledge;
  #waiting = [];
  #moving = null;
  #events = Promise.resolve(); // beside the log: no line waits until the server has stored an event
  #told;
  #saidAt = Date.now();
  /** Bytes of the agent's output that the server has stored. */
  stored = 0;

  /** `acknowledge(offset)` is called for what is stored. */
  constructor(ctx, acknowledge) {
    this.#ctx = ctx;
    this.#acknowledge = acknowledge;
    this.#told = 0;
  }

  /** A notification of the launcher. What it has sent already is passed over. */
  take(method, params) {
    if (method === "run.log" && Number.isSafeInteger(params.offset) && params.offset > this.#told) {
      this.#told = params.offset;
      this.#add({ stream: "stdout", text: `${params.data ?? ""}`, offset: params.offset });
    } else if (method === "run.note") {
      this.#note(`${params.kind}`, `${params.text ?? ""}`);
    }
  }

  /** A line of ours. */
  say(text) {
    this.#add({ stream: "stderr", text: `[paperclip-launcher] ${text}\n` });
  }

  event(level, kind, message) {
    const event = { eventType: `launcher.${kind}`, stream: "system", level, message };
    this.#events = this.#events.then(() => this.#emit(event));
  }

  /** Until all that came has been stored. */
  async idle() {
    for (let events; this.#moving !== null || events !== this.#events; ) {
      events = this.#events;
      await this.#moving;
      await events;
    }
  }

  #note(kind, text) {
    if (kind === "warning") this.event("warn", kind, text);
    else if (kind !== "keepalive") this.event("info", kind, text);
    else if (Date.now() - this.#saidAt >= QUIET_MS) this.say(text);
  }

  #add(entry) {
    this.#saidAt = Date.now();
    this.#waiting.push(entry);
    this.#moving ??= this.#move().finally(() => (this.#moving = null));
  }

  async #move() {
    while (this.#waiting.length > 0) {
      const entries = this.#together();
      const text = entries.map((one) => one.text).join("");
      for (const chunk of pieces(text)) await this.#store(entries[0].stream, chunk);
      const { offset } = entries.at(-1);
      if (offset !== undefined) {
        this.stored = offset;
        this.#acknowledge(offset);
      }
    }
  }

  /** What waits and fits into one call. */
  #together() {
    const [first] = this.#waiting;
    let [count, size] = [1, first.text.length];
    while (count < this.#waiting.length) {
      const next = this.#waiting[count];
      if (next.stream !== first.stream || size + next.text.length > MOST) break;
      size += next.text.length;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  /** A server that cannot store now may do so soon; one that never does must not cost the run its result. */
  async #store(stream, chunk) {
    for (let tries = 1, wait = FIRST_PAUSE_MS; ; tries += 1, wait *= 3) {
      try {
        return await this.#ctx.onLog(stream, chunk);
      } catch (error) {
        if (tries === TRIES) return this.event("error", "log", `a part of the log could not be stored: ${error}`);
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  async #emit(event) {
    try {
      await this.#ctx.onEvent?.(event);
    } catch {
      // An event is a comfort; the run goes on without it.
    }
  }
}

/** `text` in pieces that the server stores whole: at the end of a line where there is one, never within a character. */
export function* pieces(text, most = MOST) {
  let begin = 0;
  while (text.length - begin > most) {
    const line = text.lastIndexOf("\n", begin + most - 1) + 1;
    let end = line > begin ? line : begin + most;
    if (line <= begin && isHighSurrogate(text.charCodeAt(end - 1))) end -= 1;
    yield text.slice(begin, end);
    begin = end;
  }
  if (begin < text.length) yield text.slice(begin);
}

function isHighSurrogate(code) {
  return code >= 0xd800 && code <= 0xdbff;
}
