// The one launcher of this server process, for all adapter types and for reloaded copies of this code.
import { randomUUID } from "node:crypto";
import { Connection, Lost, isLost } from "./connection.js";
import { openDoor } from "./doors.js";
import { pause, unless } from "./waiting.js";

const SHARED = Symbol.for("paperclip-launcher/1"); // the number is that of Link's shape
const SHORTEST_MS = 100;
const LONGEST_MS = 5000;
const STEADY_MS = 10_000; // a connection that held for so long was a good one
const ACKNOWLEDGE_MS = 10_000;

export class Link {
  #settings;
  #connection = null;
  #opening = null;
  #backoff = SHORTEST_MS;
  #notBefore = 0;
  #listeners = new Map();
  #given = new Map(); // runs whose results are not acknowledged yet
  #stored = new Set(); // of those: what the launcher did not hear yet
  #client;
  #heeds = false;
  /** The server was told to end: it stores no result any more. */
  leaving = false;

  constructor(settings, version) {
    this.#settings = settings;
    this.#client = { name: "paperclip-adapter", version, instance: randomUUID() };
  }

  get settings() {
    return this.#settings;
  }

  /** A connection that lives, after at most one try. Lost with what hinders it; rejects when `signal` fires. */
  async connection(signal) {
    if (this.#connection !== null && this.#connection.ended === null) return this.#connection;
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
    return await unless(this.#opening, signal, new Lost("cancelled"));
  }

  /** A request that is not about one run. A launcher that is just being started is waited for. Lost, Refused. */
  async ask(method, params, timeout) {
    const until = Date.now() + this.#settings.askWait;
    for (;;) {
      try {
        return await (await this.connection()).call(method, params, timeout);
      } catch (error) {
        if (!isLost(error) || Date.now() >= until) throw error;
      }
    }
  }

  /** `take(method, params)` gets the notifications of a run until what is returned is called. */
  listen(runId, take) {
    this.#heed();
    this.#listeners.set(runId, take);
    return () => {
      if (this.#listeners.get(runId) === take) this.#listeners.delete(runId);
    };
  }

  /** Beside the listeners of the server, which are there when a run is: ours alone would keep the process alive. */
  #heed() {
    if (this.#heeds) return;
    this.#heeds = true;
    for (const name of ["SIGTERM", "SIGINT"]) {
      if (process.listenerCount(name) > 0) process.prependOnceListener(name, () => (this.leaving = true));
    }
  }

  /** The result of `run`, {runId, jobName, owner}, was given to the server, and will be stored soon: the launcher may
   * forget it then. `owner` is whose next run cannot begin before it is stored.
   */
  acknowledge(run) {
    this.#given.set(run.runId, run);
    const timer = setTimeout(() => void this.#settle([run]), this.#settings.stored);
    timer.unref();
  }

  /** What was given for `owner` is acknowledged when this resolves, if a launcher is there. */
  async settle(owner) {
    await this.#settle([...this.#given.values()].filter((run) => run.owner === owner));
  }

  async #open() {
    await pause(this.#notBefore - Date.now());
    try {
      const door = await openDoor(this.#settings);
      const made = new Connection(door, (method, params) => this.#listeners.get(params.runId)?.(method, params));
      await this.#greet(made);
      this.#connection = made;
      this.#watch(made);
      return made;
    } catch (error) {
      this.#hold();
      throw isLost(error) ? error : new Lost(error.message);
    }
  }

  async #greet(connection) {
    try {
      await connection.initialize(this.#client);
    } catch (error) {
      connection.end(error.message);
      throw error;
    }
  }

  #watch(connection) {
    const begun = Date.now();
    connection.closed.then(() => {
      if (Date.now() - begun < STEADY_MS) this.#hold();
      else [this.#backoff, this.#notBefore] = [SHORTEST_MS, 0];
      void this.#return();
    });
    void this.#settle([]);
  }

  /** What was not heard must not wait for the next run: until then its Job stays. */
  async #return() {
    while (this.#stored.size > 0) {
      try {
        return void (await this.connection());
      } catch {
        await new Promise((resolve) => setTimeout(resolve, LONGEST_MS).unref());
      }
    }
  }

  #hold() {
    this.#notBefore = Date.now() + this.#backoff;
    this.#backoff = Math.min(2 * this.#backoff, LONGEST_MS);
  }

  async #settle(runs) {
    for (const run of runs) if (this.#given.delete(run.runId)) this.#stored.add(run);
    const connection = this.#connection;
    if (connection === null || connection.ended !== null) return;
    await Promise.all([...this.#stored].map((run) => this.#tell(connection, run)));
  }

  /** A run that took over the Job of another may be known by that one's name alone, after a restart. */
  async #tell(connection, run) {
    try {
      const { acknowledged } = await connection.call("run.acknowledge", { runId: run.runId }, ACKNOWLEDGE_MS);
      if (!acknowledged && run.jobName) {
        await connection.call("run.acknowledge", { runId: run.jobName }, ACKNOWLEDGE_MS);
      }
    } catch (error) {
      // One that says no says so each time; one that is lost may come back.
      if (isLost(error)) return;
    }
    this.#stored.delete(run);
  }
}

/** The link of this process, made when it is first asked for. */
export function sharedLink(settings, version) {
  globalThis[SHARED] ??= new Link(settings, version);
  return globalThis[SHARED];
}
