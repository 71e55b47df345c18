// One run: handed to the launcher, its log brought to the server, its result given back. It outlives the launcher's
// death and lost connections; only the launcher's word ends it, or the server's.
import { isLost, isRefused } from "./connection.js";
import { plainContext } from "./context.js";
import { Log } from "./log.js";
import { cancelledEarly, failed, neverBegun, withCancellation } from "./results.js";
import { pause, within } from "./waiting.js";

// The server gives a cancellation 60 s, of which the launcher takes 55 at most.
const CANCEL_MS = 55_500;
const AGAIN = new Set(["detached", "reader_too_slow"]);
const AGAIN_MS = 500;
// A launcher that ends has its runs for some seconds more, one that was killed until its Lease is over.
const ELSEWHERE = "k8s_run_owned_elsewhere";
const ELSEWHERE_PAUSE_MS = 5000;
const ELSEWHERE_MS = 120_000;
const STEADY_MS = 60_000;
// The reason that the server gives when its data base is gone, as it is whenever it ends: nobody wanted the run's end.
const LEASE_LOST = "Legacy controller lease lost";

export async function execute(ctx, adapterType, link) {
  await ctx.onCancellationReady?.();
  if (ctx.signal?.aborted) return cancelledEarly();
  return await new Execution(ctx, adapterType, link).run();
}

class Execution {
  #ctx;
  #link;
  #signal;
  #context;
  #owner;
  #log;
  #connection = null;
  #sent = false;
  #over = false;
  #lostAt = Date.now();
  #elsewhereAt = 0;

  constructor(ctx, adapterType, link) {
    this.#ctx = ctx;
    this.#link = link;
    this.#signal = ctx.signal ?? new AbortController().signal;
    this.#context = plainContext(ctx, adapterType);
    const { agent, runtime } = this.#context;
    // The server has one run at a time for a task, so the next one says that the result of this one is stored.
    this.#owner = JSON.stringify([agent.id, runtime.taskKey ?? ctx.runId]);
    this.#log = new Log(ctx, (offset) => this.#connection?.notify("run.ack", { runId: ctx.runId, offset }));
  }

  async run() {
    const forget = this.#link.listen(this.#ctx.runId, (method, params) => this.#log.take(method, params));
    try {
      const result = await this.#result();
      await (this.#signal.aborted ? within(this.#log.idle(), this.#link.settings.lastWords) : this.#log.idle());
      return result;
    } finally {
      this.#over = true;
      forget();
    }
  }

  /** The launcher's result; once the run is cancelled, what can be said of it in time. */
  async #result() {
    const driven = this.#drive();
    driven.catch(() => {}); // a cancelled run may not wait for it
    const cancelled = new Promise((resolve) => {
      const cancel = () => resolve(this.#isLeft() ? this.#leave() : this.#cancel());
      if (this.#signal.aborted) cancel();
      else this.#signal.addEventListener("abort", cancel, { once: true });
    });
    const result = await Promise.race([driven, cancelled.then(() => null)]);
    if (!this.#signal.aborted) return result;
    if (!this.#sent) return cancelledEarly();
    if (this.#isLeft()) return failed("server_left", "The server lost its hold on the run, which goes on in its Job");
    const cancellation = await cancelled;
    const { lastWords } = this.#link.settings;
    const last = await within(driven, lastWords, failed("cancelled", "The run was cancelled"));
    return withCancellation(last, cancellation);
  }

  /** Until there is an answer that counts. */
  async #drive() {
    while (!this.#over) {
      const { connection, result } = await this.#connect();
      if (result) return result;
      const [begun, stored] = [Date.now(), this.#log.stored];
      try {
        return await this.#ask(connection);
      } catch (error) {
        await this.#log.idle();
        if (error.data?.result) return error.data.result;
        if (!this.#isWorthAnotherTry(error)) return this.#refused(error);
        if (Date.now() - begun > STEADY_MS || this.#log.stored > stored) this.#lostAt = Date.now();
        if (this.#waited() >= this.#link.settings.patience) return this.#givenUp(error);
        await pause(error.code === ELSEWHERE ? ELSEWHERE_PAUSE_MS : AGAIN_MS, this.#signal);
      }
    }
    return failed("cancelled", "The run was cancelled");
  }

  /** {connection}, or {result} of a run that got none in time. */
  async #connect() {
    for (let told = false; ; told = true) {
      try {
        return { connection: await this.#link.connection(this.#sent ? undefined : this.#signal) };
      } catch (error) {
        const { firstWait, patience } = this.#link.settings;
        if (this.#over || (this.#signal.aborted && !this.#sent)) return { result: cancelledEarly() };
        if (!this.#sent && this.#waited() >= firstWait) return { result: neverBegun(error.message) };
        if (this.#sent && this.#waited() >= patience) return { result: this.#givenUp(error) };
        if (!told) this.#log.event("warn", "connection", `The launcher cannot be reached: ${error.message}`);
      }
    }
  }

  async #ask(connection) {
    if (!this.#sent) {
      await this.#link.settle(this.#owner);
      await this.#announce(connection);
      // Nothing comes between this look and the request, so that a run that is cancelled by now is never begun.
      if (this.#signal.aborted) return cancelledEarly();
      this.#ctx.onDispatch?.();
    }
    this.#connection = connection;
    this.#sent = true;
    const { runId } = this.#ctx;
    const offset = this.#log.stored;
    // A run that is cancelled may be gone by now, and must not begin anew.
    const answer = this.#signal.aborted
      ? await connection.call("run.attach", { runId, offset })
      : await connection.call("run.execute", { context: this.#context, offset });
    if (!this.#isLeft()) this.#link.acknowledge({ runId, jobName: answer.jobName, owner: this.#owner });
    return answer.result;
  }

  async #announce(connection) {
    const { identity, namespace, launcher } = connection.hello;
    const commandNotes = [
      `A Kubernetes Job in the namespace ${namespace}, by the launcher ${identity} (${launcher?.version}).`,
      `\`paperclip-launcher describe ${this.#ctx.runId}\` says how it stands.`,
    ];
    const { adapterType } = this.#context.agent;
    try {
      await this.#ctx.onMeta?.({ adapterType, command: "paperclip-launcher", commandNotes });
    } catch {
      // A comfort; the run goes on without it.
    }
  }

  #isWorthAnotherTry(error) {
    if (isLost(error)) this.#log.event("warn", "connection", `${error.message}; connecting again`);
    if (error.code !== ELSEWHERE) return isLost(error) || AGAIN.has(error.code);
    this.#elsewhereAt ||= Date.now();
    return Date.now() - this.#elsewhereAt < ELSEWHERE_MS;
  }

  #refused(error) {
    if (!isRefused(error)) throw error;
    if (this.#signal.aborted) return failed("cancelled", "The run was cancelled");
    const { problems = [], remedy = "" } = error.data;
    return failed(error.code, [error.message, remedy].filter(Boolean).join(". "), { problems, remedy });
  }

  #waited() {
    return Date.now() - this.#lostAt;
  }

  #givenUp(error) {
    const text =
      `The launcher could not be reached for ${Math.round(this.#waited() / 60_000)} minutes, so how the run ended is ` +
      `not known; it may still go on in its Job. The next run of the same task takes it over. (${error.message})`;
    return failed("launcher_lost", text);
  }

  /** {state, acknowledgedAt, forced}, in time. */
  async #cancel() {
    return await within(this.#ended(), CANCEL_MS, { state: "unknown", acknowledgedAt: null, forced: false });
  }

  /** Nobody reads the run here any more: the next one of its task need not wait for us. */
  #leave() {
    this.#over = true;
    this.#connection?.notify("run.leave", { runId: this.#ctx.runId });
  }

  /** Whether the server stores no result of this run any more: then it goes on, and the next run takes it up. */
  #isLeft() {
    return this.#link.leaving || this.#signal.reason?.message === LEASE_LOST;
  }

  async #ended() {
    const until = Date.now() + CANCEL_MS;
    while (this.#sent && !this.#over) {
      try {
        const connection = await this.#link.connection();
        return await connection.call("run.cancel", { runId: this.#ctx.runId }, until - Date.now());
      } catch (error) {
        // Nothing of that name is alive, in the cluster or on its way there.
        if (error.code === "run_not_found") break;
        await pause(AGAIN_MS);
      }
    }
    return { state: "acknowledged", acknowledgedAt: new Date().toISOString(), forced: false };
  }
}
