import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { execute } from "../../../adapter/source/execute.js";
import { FakeLauncher, RESULT, Server, answer, moment, refusal } from "./fake.mjs";

let launcher;
afterEach(() => launcher?.kill());

async function start(on, settings) {
  launcher = await new FakeLauncher(on).start();
  return launcher.link(settings);
}

const ran = (server, link) => execute(server.ctx, "claude_k8s", link);

test("a run is announced, dispatched, logged and given back, in this order", async () => {
  const link = await start({
    "run.execute": (params, call) => {
      call.note("progress", "Pod p: phase=Pending");
      call.log(6, "one\nä");
      return answer(params.context.runId);
    },
  });
  const server = new Server();
  assert.deepEqual(await ran(server, link), RESULT);
  assert.deepEqual(server.kinds.slice(0, 3), ["ready", "meta", "dispatch"]);
  assert.deepEqual(server.kinds.slice(3).sort(), ["event", "log"]);
  assert.equal(server.log(), "one\nä");
  const [, meta] = server.told.find(([kind]) => kind === "meta");
  assert.equal(meta.adapterType, "claude_k8s");
  assert.ok(!JSON.stringify(server.told).includes("token-of-the-run"));
});

test("the launcher gets the context without functions and cycles, with its own type and offset 0", async () => {
  const link = await start({ "run.execute": (params) => answer(params.context.runId) });
  await ran(new Server({ runtimeTools: { mcpEndpoint: "http://s/mcp", bearerToken: "b" } }), link);
  const [{ params }] = launcher.asked("run.execute");
  assert.deepEqual(params, {
    context: {
      runId: "run-1",
      agent: { id: "agent-1", companyId: "company-1", name: "Ada", adapterType: "claude_k8s" },
      runtime: { taskKey: "T-1" },
      config: { env: { PLAIN: "x" } },
      context: { issueId: "T-1" },
      authToken: "token-of-the-run",
      runtimeTools: { mcpEndpoint: "http://s/mcp", bearerToken: "b" },
    },
    offset: 0,
  });
});

test("log is acknowledged after it is stored, and the result after that", async () => {
  const link = await start({
    "run.execute": async (params, call) => {
      call.log(4, "abc\n");
      await launcher.until("run.ack");
      return answer(params.context.runId);
    },
  });
  const server = new Server({
    onLog: async () => {
      assert.equal(launcher.asked("run.ack").length, 0);
      await moment(20);
      assert.equal(launcher.asked("run.ack").length, 0);
    },
  });
  await ran(server, link);
  await launcher.until("run.acknowledge");
  const methods = launcher.calls.map((call) => call.method);
  assert.deepEqual(methods, ["initialize", "run.execute", "run.ack", "run.acknowledge"]);
  assert.deepEqual(launcher.asked("run.ack")[0].params, { runId: "run-1", offset: 4 });
});

test("a result is acknowledged some time after it was given back, but before the next run of its task", async () => {
  const link = await start({ "run.execute": (params) => answer(params.context.runId) }, { stored: 60_000 });
  await ran(new Server(), link);
  await ran(new Server({ runId: "run-other", runtime: { taskKey: "T-2" } }), link);
  assert.equal(launcher.asked("run.acknowledge").length, 0);
  await ran(new Server({ runId: "run-2" }), link);
  const before = launcher.calls.at(-2);
  assert.deepEqual([before.method, before.params.runId], ["run.acknowledge", "run-1"]);
});

test("an acknowledgement that was not heard is said again, by the Job's name if no such run is known", async () => {
  let deaf = true;
  const link = await start({
    "run.execute": (params) => answer(params.context.runId),
    "run.acknowledge": (params) => {
      if (deaf) launcher.breakConnections();
      return deaf ? undefined : { acknowledged: params.runId.startsWith("job-") };
    },
  });
  await ran(new Server(), link);
  await launcher.until("run.acknowledge");
  deaf = false;
  await launcher.until("run.acknowledge", 3);
  assert.deepEqual(launcher.asked("run.acknowledge").map((call) => call.params.runId), ["run-1", "run-1", "job-run-1"]);
});

test("what waits goes to the server in few calls of at most 64 Ki characters", async () => {
  const text = (number) => `${number} ${"ü".repeat(200)}\n`;
  const count = 2000;
  const link = await start({
    "run.execute": async (params, call) => {
      for (let number = 1; number <= count; number += 1) call.log(number, text(number));
      await moment(30);
      return answer(params.context.runId);
    },
  });
  const sizes = [];
  let all = "";
  const onLog = async (_, chunk) => {
    sizes.push(chunk.length);
    all += chunk;
    await moment(5);
  };
  await ran(new Server({ onLog }), link);
  assert.equal(all, Array.from({ length: count }, (_, index) => text(index + 1)).join(""));
  assert.ok(Math.max(...sizes) <= 64 * 1024, `${sizes}`);
  assert.ok(sizes.length <= 40, `${sizes.length}`);
  while (launcher.asked("run.ack").at(-1).params.offset < count) await moment();
});

test("a store that fails now and then loses nothing", async () => {
  const link = await start({
    "run.execute": (params, call) => {
      call.log(2, "a\n");
      return answer(params.context.runId);
    },
  });
  let [tries, stored] = [0, ""];
  const onLog = async (_, chunk) => {
    tries += 1;
    if (tries === 1) throw new Error("no database");
    stored += chunk;
  };
  assert.deepEqual(await ran(new Server({ onLog }), link), RESULT);
  assert.equal(stored, "a\n");
});

test("a launcher killed in mid-run is asked again from where the log was stored: no line lost or doubled", async () => {
  const lines = ["a\n", "b\n", "c\n", "d\n"];
  const link = await start({
    "run.execute": async (params, call) => {
      const begin = params.offset / 2;
      if (begin === 0) {
        call.log(2, "a\n");
        call.log(4, "b\n");
        await moment(20);
        await launcher.kill();
        await moment(50);
        await launcher.start();
        return undefined;
      }
      // One that was sent already does no harm.
      call.log(2 * begin, lines[begin - 1]);
      for (const [index, line] of lines.entries()) if (index >= begin) call.log(2 * (index + 1), line);
      return answer(params.context.runId);
    },
  });
  const server = new Server();
  assert.deepEqual(await ran(server, link), RESULT);
  assert.equal(server.log(), lines.join(""));
  assert.deepEqual(launcher.asked("run.execute").map((call) => call.params.offset), [0, 4]);
  assert.equal(server.kinds.filter((kind) => kind === "meta" || kind === "dispatch").length, 2);
});

test("log that came before the connection broke is stored before the run is asked for again", async () => {
  const link = await start({
    "run.execute": (params, call) => {
      if (params.offset > 0) return answer(params.context.runId);
      call.log(2, "a\n");
      call.socket.end();
      return undefined;
    },
  });
  const server = new Server();
  const onLog = async (...what) => {
    await moment(700); // longer than it takes to ask again
    server.told.push(["log", ...what]);
  };
  server.ctx.onLog = onLog;
  await ran(server, link);
  assert.equal(server.log(), "a\n");
  assert.equal(launcher.asked("run.execute")[1].params.offset, 2);
});

for (const code of ["detached", "reader_too_slow"]) {
  test(`a launcher that says ${code} is asked again`, async () => {
    let times = 0;
    const link = await start({
      "run.execute": (params) => {
        times += 1;
        if (times === 1) throw refusal(code);
        return answer(params.context.runId);
      },
    });
    assert.deepEqual(await ran(new Server(), link), RESULT);
    assert.equal(times, 2);
  });
}

test("an error with a result gives that result", async () => {
  const result = { ...RESULT, exitCode: null, errorCode: "k8s_quota_exceeded", errorMessage: "no room" };
  const link = await start({
    "run.execute": () => {
      throw refusal("k8s_quota_exceeded", { result });
    },
  });
  assert.deepEqual(await ran(new Server(), link), result);
});

for (const code of ["replaced", "internal_error", "k8s_api_error", "run_not_found", "unknown_method"]) {
  test(`${code} is a failure that says so, and no success`, async () => {
    const link = await start({
      "run.execute": () => {
        throw refusal(code, { remedy: "mend it" });
      },
    });
    const found = await ran(new Server(), link);
    assert.deepEqual(
      [found.exitCode, found.errorCode, found.errorMessage, found.executionRecovery],
      [null, code, `it is ${code}. mend it`, undefined],
    );
  });
}

test("a launcher that cannot be reached leaves it to the server to begin anew", async () => {
  const link = await start({}, { firstWait: 30 });
  await launcher.kill();
  const found = await ran(new Server(), link);
  assert.equal(found.errorFamily, "transient_upstream");
  assert.deepEqual(found.executionRecovery, { kind: "bootstrap", providerWorkStarted: false });
  assert.match(found.errorMessage, /was not begun: no launcher at .*ENOENT/);
  await launcher.start();
});

test("a launcher that stays away is given up in the end, without a word of success or of nothing begun", async () => {
  const link = await start(
    { "run.execute": () => void launcher.kill() },
    { patience: 300 },
  );
  const found = await ran(new Server(), link);
  assert.equal(found.errorCode, "launcher_lost");
  assert.match(found.errorMessage, /could not be reached for 0 minutes.*may still go on/);
  assert.equal(found.executionRecovery, undefined);
  await launcher.start();
});

test("a request that is too long for the launcher is refused at once", async () => {
  const link = await start({ "run.execute": (params) => answer(params.context.runId) });
  const found = await ran(new Server({ context: { issueId: "T-1", text: "x".repeat(17 << 20) } }), link);
  assert.equal(found.errorCode, "line_too_long");
  assert.equal(launcher.asked("run.execute").length, 0);
});

test("keepalives become a line now and then, not each of them", async (t) => {
  const link = await start({
    "run.execute": async (params, call) => {
      for (const minutes of [1, 10, 8, 3, 1, 15, 6]) {
        t.mock.timers.tick(minutes * 60_000);
        call.note("keepalive", "still running");
        await new Promise((resolve) => setImmediate(resolve));
        await launcher.until("initialize");
        for (let turns = 0; turns < 20; turns += 1) await new Promise((resolve) => setImmediate(resolve));
      }
      return answer(params.context.runId);
    },
  });
  t.mock.timers.enable({ apis: ["Date"], now: Date.now() });
  const server = new Server();
  await ran(server, link);
  assert.equal(server.log("stderr"), "[paperclip-launcher] still running\n".repeat(2));
});

test("warnings are events of their own", async () => {
  const link = await start({
    "run.execute": (params, call) => {
      call.note("warning", "the skill is missing");
      return answer(params.context.runId);
    },
  });
  const server = new Server();
  await ran(server, link);
  const event = { eventType: "launcher.warning", stream: "system", level: "warn", message: "the skill is missing" };
  assert.deepEqual(server.told.filter(([kind]) => kind === "event"), [["event", event]]);
});

test("a server without the newer functions is served too", async () => {
  const link = await start({ "run.execute": (params) => answer(params.context.runId) });
  const { ctx } = new Server();
  for (const name of ["onCancellationReady", "onMeta", "onEvent", "onDispatch", "signal"]) delete ctx[name];
  assert.deepEqual(await execute(ctx, "claude_k8s", link), RESULT);
});

test("a line does not wait until the server has stored an event, and the end waits for both", async () => {
  const link = await start({
    "run.execute": (params, call) => {
      call.note("warning", "the skill is missing");
      call.log(2, "a\n");
      return answer(params.context.runId);
    },
  });
  const server = new Server();
  let store;
  const stored = new Promise((resolve) => (store = resolve));
  server.ctx.onEvent = () => stored;
  let over = false;
  const running = execute(server.ctx, "claude_k8s", link).then(() => (over = true));
  await launcher.until("run.ack");
  assert.equal(server.log(), "a\n");
  await moment(20);
  assert.equal(over, false);
  store();
  await running;
});
