// A launcher that does what a test tells it, on a real socket; and a run's context as the server makes it.
import { mkdtempSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Link } from "../../../adapter/source/link.js";

export const RESULT = { exitCode: 0, signal: null, timedOut: false, summary: "done" };

/** `on[method](params, call)` answers with what it returns, with an error if it throws one of `refusal`, and not at all
 * for undefined. */
export class FakeLauncher {
  calls = [];
  connections = 0;
  #sockets = new Set();
  #server;

  constructor(on = {}) {
    this.path = path.join(mkdtempSync(path.join(tmpdir(), "adapter-")), "s");
    this.on = {
      initialize: () => ({ protocolVersion: 1, launcher: { version: "1" }, identity: "one", namespace: "agents" }),
      "run.acknowledge": () => ({ acknowledged: true }),
      "run.cancel": () => ({ state: "acknowledged", acknowledgedAt: "2026-01-01T00:00:00Z", forced: false }),
      ping: () => ({}),
      ...on,
    };
  }

  async start() {
    this.#server = net.createServer((socket) => this.#serve(socket));
    await new Promise((resolve) => this.#server.listen(this.path, resolve));
    return this;
  }

  /** As a process that is killed: nobody listens any more, and every connection breaks. */
  async kill() {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  breakConnections() {
    for (const socket of this.#sockets) socket.destroy();
  }

  asked(method) {
    return this.calls.filter((call) => call.method === method);
  }

  /** Resolves when `method` was asked for `times` times. */
  async until(method, times = 1) {
    while (this.asked(method).length < times) await moment();
    return this.asked(method)[times - 1];
  }

  link(settings = {}) {
    const waits = { firstWait: 5000, patience: 5000, askWait: 0, stored: 0, lastWords: 100 };
    return new Link({ socket: this.path, problem: "", ...waits, ...settings }, "1");
  }

  #serve(socket) {
    this.connections += 1;
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket)).on("error", () => {});
    let rest = "";
    socket.on("data", (chunk) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop();
      for (const line of lines) void this.#take(JSON.parse(line), socket);
    });
  }

  async #take({ id, method, params }, socket) {
    const write = (tree) => socket.write(`${JSON.stringify({ jsonrpc: "2.0", ...tree })}\n`);
    const call = {
      method,
      params,
      socket,
      log: (offset, data) => write({ method: "run.log", params: { runId: params.context.runId, offset, data } }),
      note: (kind, text) => write({ method: "run.note", params: { runId: params.context.runId, kind, text } }),
      answer: (result) => write({ id, result }),
    };
    this.calls.push(call);
    if (id === undefined) return;
    try {
      const result = await this.on[method](params, call, this);
      if (result !== undefined) write({ id, result });
    } catch (error) {
      write({ id, error: error.refusal ?? { code: -32603, message: `${error.stack}` } });
    }
  }
}

export function refusal(code, data = {}) {
  const error = { code: -32000, message: `it is ${code}`, data: { code, ...data } };
  return Object.assign(new Error(code), { refusal: error });
}

export function answer(runId, result = RESULT, offset = 0) {
  return { runId, jobName: `job-${runId}`, offset, exit: 0, result };
}

export const moment = (milliseconds = 2) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The server's part of a run; what happened to it stands in `told`. */
export class Server {
  told = [];
  controller = new AbortController();

  constructor(more = {}) {
    const tell = (kind) => async (...what) => void this.told.push([kind, ...what]);
    this.ctx = {
      runId: "run-1",
      agent: { id: "agent-1", companyId: "company-1", name: "Ada", adapterType: "claude_k8s", status: "running" },
      runtime: { sessionId: null, sessionParams: null, taskKey: "T-1" },
      config: { env: { PLAIN: "x" } },
      context: { issueId: "T-1" },
      authToken: "token-of-the-run",
      signal: this.controller.signal,
      onCancellationReady: tell("ready"),
      onMeta: tell("meta"),
      onEvent: tell("event"),
      onLog: tell("log"),
      onDispatch: () => this.told.push(["dispatch"]),
      onSpawn: tell("spawn"),
      ...more,
    };
    this.ctx.self = this.ctx;
  }

  get kinds() {
    return this.told.map(([kind]) => kind);
  }

  /** What was stored of one stream. */
  log(stream = "stdout") {
    return this.told.filter(([kind, one]) => kind === "log" && one === stream).map(([, , text]) => text).join("");
  }
}
