// One connection to a launcher: JSON-RPC 2.0, one JSON object a line.
import { LineSplitter } from "./lines.js";

const PROTOCOL_VERSION = 1;
const HELLO_MS = 60_000;
const PING_MS = 20_000;
const SILENT_MS = 90_000; // after that a launcher that owes an answer is taken for dead
const LONGEST = 16 << 20; // bytes of a line that the launcher reads

/** The launcher said no: `code` is that of its error's data ("run_not_found"), `data` the whole. */
export class Refused extends Error {
  constructor(error) {
    super(typeof error?.message === "string" ? error.message : "the launcher said no");
    this.data = error?.data && typeof error.data === "object" ? error.data : {};
    this.code = typeof this.data.code === "string" ? this.data.code : "launcher_error";
  }
}

/** There is no connection, or it has ended: whether the launcher heard the request is not known. */
export class Lost extends Error {
  code = "connection_lost";
}

// By what they carry: a reloaded copy of this code has classes of its own.
export const isLost = (error) => error?.code === "connection_lost";
export const isRefused = (error) => typeof error?.data === "object" && typeof error.code === "string";

export class Connection {
  #door;
  #pending = new Map();
  #next = 1;
  #lines = new LineSplitter();
  #notified;
  #heardAt = Date.now();
  #pinging;
  /** What the launcher said of itself. */
  hello = {};
  /** Null while it lives. */
  ended = null;
  /** Settles with the reason when it has ended; never rejects. */
  closed;
  #close;

  constructor(door, notified) {
    this.#door = door;
    this.#notified = notified;
    this.closed = new Promise((resolve) => (this.#close = resolve));
    door.input.on("data", (chunk) => this.#feed(chunk));
    for (const name of ["end", "close"]) door.input.on(name, () => this.end("the launcher has ended"));
    for (const stream of new Set([door.input, door.output])) {
      stream.on("error", (error) => this.end(`the connection to the launcher broke: ${error.code ?? error.message}`));
    }
    this.#pinging = setInterval(() => this.#ping(), PING_MS);
    this.#pinging.unref();
    door.unref();
  }

  /** Refused where the launcher speaks another protocol; Lost. */
  async initialize(client) {
    this.hello = await this.call("initialize", { protocolVersion: PROTOCOL_VERSION, client }, HELLO_MS);
    return this;
  }

  /** The result. Refused, or Lost; also after `timeout` milliseconds (0: none). */
  call(method, params, timeout = 0) {
    const id = this.#next++;
    const line = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    if (Buffer.byteLength(line) >= LONGEST) {
      const data = { code: "line_too_long", remedy: "give the agent less: a shorter prompt, fewer comments" };
      return Promise.reject(new Refused({ message: `the request has more than ${LONGEST >> 20} MiB`, data }));
    }
    return new Promise((resolve, reject) => {
      if (this.ended !== null) return reject(new Lost(this.ended));
      const timer = timeout && setTimeout(() => this.#late(id, method, timeout), timeout);
      if (this.#pending.size === 0) this.#heardAt = Date.now();
      this.#pending.set(id, { resolve, reject, timer });
      this.#door.ref();
      this.#write(line);
    });
  }

  notify(method, params) {
    if (this.ended === null) this.#write(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  end(reason) {
    if (this.ended !== null) return;
    this.ended = reason;
    clearInterval(this.#pinging);
    for (const id of [...this.#pending.keys()]) this.#take(id)?.reject(new Lost(reason));
    this.#door.close();
    this.#close(reason);
  }

  #write(line) {
    // Requests are few, and acknowledgements short: what a stream holds back is bounded by what runs there are.
    this.#door.output.write(`${line}\n`);
  }

  #take(id) {
    const waiting = this.#pending.get(id);
    if (waiting === undefined) return undefined;
    this.#pending.delete(id);
    clearTimeout(waiting.timer);
    if (this.#pending.size === 0) this.#door.unref();
    return waiting;
  }

  #late(id, method, timeout) {
    this.#take(id)?.reject(new Lost(`the launcher did not answer ${method} in ${timeout / 1000} s`));
  }

  #feed(chunk) {
    this.#heardAt = Date.now();
    try {
      for (const line of this.#lines.feed(chunk)) if (line.trim()) this.#hear(JSON.parse(line));
    } catch (error) {
      this.end(`the launcher sent what is no line of its protocol: ${error.message}`);
    }
  }

  #hear(message) {
    if (message === null || typeof message !== "object") throw new TypeError("no object");
    if (typeof message.method === "string") {
      this.#notified(message.method, message.params ?? {}, this);
      return;
    }
    const waiting = this.#take(message.id);
    if (message.error) waiting?.reject(new Refused(message.error));
    else waiting?.resolve(message.result ?? {});
  }

  /** One that hangs is as good as dead, but would never say so. */
  #ping() {
    if (this.#pending.size === 0) return;
    if (Date.now() - this.#heardAt > SILENT_MS) this.end(`the launcher said nothing for ${SILENT_MS / 1000} s`);
    else this.call("ping", {}).catch(() => {});
  }
}
