import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { execute } from "../../../adapter/source/execute.js";
import { FakeLauncher, RESULT, Server, answer, moment, refusal } from "./fake.mjs";

const CANCELLED = { ...RESULT, exitCode: null, signal: "SIGTERM", errorCode: "cancelled", errorMessage: "cancelled" };
let launcher;
afterEach(() => launcher?.kill());

async function start(on, settings) {
  launcher = await new FakeLauncher(on).start();
  return launcher.link(settings);
}

const ran = (server, link) => execute(server.ctx, "claude_k8s", link);

function assertNothingBegan(found) {
  assert.equal(found.resultJson.executionCancellation.state, "acknowledged");
  assert.deepEqual(found.executionRecovery, { kind: "bootstrap", providerWorkStarted: false });
  assert.equal(found.errorCode, "cancelled");
  assert.equal(launcher.asked("run.execute").length, 0);
}

test("a run that is cancelled before it is taken up is never begun", async () => {
  const link = await start();
  const server = new Server();
  server.controller.abort();
  assertNothingBegan(await ran(server, link));
  await moment(30);
  assert.equal(launcher.connections, 0);
});

test("so is one that is cancelled when the adapter says that it listens", async () => {
  const link = await start();
  const server = new Server();
  server.ctx.onCancellationReady = async () => server.controller.abort();
  assertNothingBegan(await ran(server, link));
});

test("so is one that is cancelled while the launcher is looked for", async () => {
  const link = await start();
  await launcher.kill();
  const server = new Server();
  setTimeout(() => server.controller.abort(), 30);
  assertNothingBegan(await ran(server, link));
  await launcher.start();
});

test("so is one that is cancelled while the launcher says who it is", async () => {
  const link = await start({ initialize: async () => void server.controller.abort() });
  const server = new Server();
  assertNothingBegan(await ran(server, link));
});

test("so is one that is cancelled while it is announced", async () => {
  const link = await start({ "run.execute": (params) => answer(params.context.runId) });
  const server = new Server();
  server.ctx.onMeta = async () => server.controller.abort();
  assertNothingBegan(await ran(server, link));
  await moment(20);
  assert.equal(launcher.asked("run.execute").length, 0);
});

test("a run under way is cancelled by the launcher, and its last log, cost and session come with it", async () => {
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  const link = await start({
    "run.execute": async (params, call) => {
      call.log(2, "a\n");
      await ended;
      call.log(4, "b\n");
      return answer(params.context.runId, { ...CANCELLED, costUsd: 0.5, resultJson: { stdout: "b" } });
    },
    "run.cancel": () => {
      end();
      return { state: "acknowledged", acknowledgedAt: "2026-01-01T00:00:00Z", forced: true };
    },
  });
  const server = new Server();
  const running = ran(server, link);
  await launcher.until("run.ack");
  server.controller.abort();
  const found = await running;
  assert.equal(found.costUsd, 0.5);
  assert.deepEqual(found.resultJson, {
    stdout: "b",
    executionCancellation: { state: "acknowledged", acknowledgedAt: "2026-01-01T00:00:00Z", forced: true },
  });
  assert.equal(server.log(), "a\nb\n");
  assert.deepEqual(launcher.asked("run.cancel").map((call) => call.params), [{ runId: "run-1" }]);
});

test("an end that the launcher does not vouch for is not vouched for to the server", async () => {
  const link = await start({
    "run.execute": () => undefined,
    "run.cancel": () => ({ state: "unknown", acknowledgedAt: null, forced: false }),
  });
  const server = new Server();
  const running = ran(server, link);
  await launcher.until("run.execute");
  server.controller.abort();
  const found = await running;
  assert.equal(found.resultJson.executionCancellation.state, "unknown");
  assert.equal(found.errorCode, "cancelled");
});

test("a run that the launcher does not know any more has ended", async () => {
  const link = await start({
    "run.execute": () => undefined,
    "run.cancel": () => {
      throw refusal("run_not_found");
    },
  });
  const server = new Server();
  const running = ran(server, link);
  await launcher.until("run.execute");
  server.controller.abort();
  assert.equal((await running).resultJson.executionCancellation.state, "acknowledged");
});

test("a launcher that is away at a cancellation hears of it later, and does not begin the run anew", async () => {
  const link = await start({
    "run.execute": () => undefined,
    "run.attach": (params) => answer(params.runId, CANCELLED),
  });
  const server = new Server();
  const running = ran(server, link);
  await launcher.until("run.execute");
  await launcher.kill();
  server.controller.abort();
  await moment(50);
  await launcher.start();
  const found = await running;
  assert.equal(found.resultJson.executionCancellation.state, "acknowledged");
  assert.equal(found.errorCode, "cancelled");
  await moment(600);
  assert.equal(launcher.asked("run.execute").length, 1);
});

test("a launcher that dies over a cancellation does not begin the run anew either", async () => {
  let deaths = 0;
  const link = await start({
    "run.execute": () => undefined,
    "run.cancel": () => {
      deaths += 1;
      if (deaths > 1) throw refusal("run_not_found");
      launcher.breakConnections();
      return undefined;
    },
    "run.attach": () => {
      throw refusal("run_not_found");
    },
  });
  const server = new Server();
  const running = ran(server, link);
  await launcher.until("run.execute");
  server.controller.abort();
  const found = await running;
  assert.equal(found.resultJson.executionCancellation.state, "acknowledged");
  await moment(600);
  assert.equal(launcher.asked("run.execute").length, 1);
});

test("a cancellation that comes when all is over changes nothing of the result", async () => {
  const link = await start({ "run.execute": (params) => answer(params.context.runId) });
  const server = new Server();
  assert.deepEqual(await ran(server, link), RESULT);
  server.controller.abort();
  await moment(20);
  assert.equal(launcher.asked("run.cancel").length, 0);
});

test("a run that the server has lost its hold on is left to the next one, and neither ended nor acknowledged", async () => {
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  const link = await start({
    "run.execute": async (params, call) => {
      call.log(2, "a\n");
      await ended;
      return answer(params.context.runId);
    },
    "run.leave": () => ({}),
  });
  const server = new Server();
  const running = ran(server, link);
  await launcher.until("run.ack");
  server.controller.abort(new Error("Legacy controller lease lost"));
  const found = await running;
  assert.equal(found.errorCode, "server_left");
  assert.equal(found.executionRecovery, undefined);
  await launcher.until("run.leave");
  end();
  await moment(50);
  assert.deepEqual([launcher.asked("run.cancel"), launcher.asked("run.acknowledge")], [[], []]);
});

test("a result that comes when the server was told to end is not acknowledged, and its aborts end no run", async () => {
  const own = () => {}; // the server has listeners of its own
  process.on("SIGTERM", own);
  try {
    let end;
    const ended = new Promise((resolve) => (end = resolve));
    const link = await start({
      "run.execute": async (params) => {
        if (params.context.runId === "run-2") return;
        await ended;
        return answer(params.context.runId);
      },
      "run.leave": () => ({}),
    });
    const [first, second] = [new Server(), new Server({ runId: "run-2", runtime: { taskKey: "T-2" } })];
    const running = [ran(first, link), ran(second, link)];
    await launcher.until("run.execute", 2);
    process.emit("SIGTERM");
    end();
    assert.equal((await running[0]).exitCode, 0);
    second.controller.abort(new Error("anything"));
    assert.equal((await running[1]).errorCode, "server_left");
    await moment(50);
    assert.deepEqual([launcher.asked("run.cancel"), launcher.asked("run.acknowledge")], [[], []]);
  } finally {
    process.removeListener("SIGTERM", own);
  }
});
