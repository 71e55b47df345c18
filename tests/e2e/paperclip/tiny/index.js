// The smallest adapter that shows how the server treats one. What a run does is in its agent's config:
// lines: how many to log; milliseconds: how long to stay then; cancel: "acknowledge" or "end" to listen to a
// cancellation and say so or not, else it is not listened to; finish: to set the issue to done; fail: an errorCode.
import fs from "node:fs";

const trace = (config, text) => config.trace && fs.appendFileSync(config.trace, `${text}\n`);

function stayed(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve("over"), milliseconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve("aborted"); });
  });
}

async function finishIssue(ctx) {
  const answer = await fetch(`http://127.0.0.1:${process.env.PORT}/api/issues/${ctx.context.issueId}`, {
    method: "PATCH",
    headers: {
      authorization: `Bearer ${ctx.authToken}`,
      "content-type": "application/json",
      "x-paperclip-run-id": ctx.runId,
    },
    body: JSON.stringify({ status: "done" }),
  });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
}

async function execute(ctx) {
  const { config } = ctx;
  const listens = config.cancel === "acknowledge" || config.cancel === "end";
  if (listens) await ctx.onCancellationReady();
  trace(config, "entered");
  for (let number = 1; number <= (config.lines ?? 0); number += 1) {
    await ctx.onLog(number % 2 ? "stdout" : "stderr", `line ${number} ü\n`);
  }
  const how = await stayed(config.milliseconds ?? 0, listens ? ctx.signal : undefined);
  trace(config, how);
  if (config.finish) await finishIssue(ctx);
  const count = (ctx.runtime.sessionParams?.count ?? 0) + 1;
  const acknowledged = how === "aborted" && config.cancel === "acknowledge";
  const at = new Date().toISOString();
  return {
    exitCode: config.fail ? 1 : 0,
    signal: null,
    timedOut: false,
    ...(config.fail && { errorCode: config.fail, errorMessage: "as its config says" }),
    provider: "tiny",
    model: "small",
    usage: { inputTokens: 100, outputTokens: 20 },
    usageBasis: "per_run",
    billingType: "api",
    costUsd: 0.25,
    sessionId: `session-${count}`,
    sessionDisplayId: `session-${count}`,
    sessionParams: { count },
    summary: `run ${count}`,
    resultJson: {
      count,
      ...(acknowledged && { executionCancellation: { state: "acknowledged", acknowledgedAt: at, forced: false } }),
    },
  };
}

const object = (value) => (value && typeof value === "object" ? value : null);

export function createServerAdapter() {
  return {
    type: "tiny",
    execute,
    models: [{ id: "small", label: "Small" }],
    supportsLocalAgentJwt: true,
    sessionCodec: { serialize: object, deserialize: object },
    getConfigSchema: () => ({ fields: [{ key: "lines", label: "Lines", type: "number", hint: "How many to log" }] }),
    testEnvironment: async (ctx) => ({
      adapterType: "tiny",
      status: ctx.config.lines ? "pass" : "fail",
      checks: [{ code: "lines", level: ctx.config.lines ? "info" : "error", message: `lines: ${ctx.config.lines}` }],
      testedAt: new Date().toISOString(),
    }),
  };
}
