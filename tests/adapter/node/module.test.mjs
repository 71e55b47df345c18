import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { pathToFileURL } from "node:url";
import { FakeLauncher, RESULT, Server, answer, refusal } from "./fake.mjs";

const ADAPTER = path.resolve(import.meta.dirname, "../../../adapter");
const SHARED = Symbol.for("paperclip-launcher/1");
let launcher;
let number = 0;

before(async () => {
  launcher = await new FakeLauncher().start();
  process.env.PAPERCLIP_LAUNCHER_SOCKET = launcher.path;
});
after(() => launcher.kill());
beforeEach(() => {
  launcher.calls = [];
  launcher.on["run.execute"] = (params) => answer(params.context.runId);
});

/** As the server loads one, each time anew. */
async function load(folder = path.join(ADAPTER, "claude")) {
  number += 1;
  const module = await import(`${pathToFileURL(path.join(folder, "index.js")).href}?t=${number}`);
  return module.createServerAdapter();
}

test("both types and reloaded copies share one connection", async () => {
  launcher.connections = 0;
  const adapters = [await load(), await load(path.join(ADAPTER, "opencode")), await load()];
  const copied = path.join(mkdtempSync(path.join(tmpdir(), "adapter-")), "adapter");
  cpSync(ADAPTER, copied, { recursive: true });
  adapters.push(await load(path.join(copied, "claude")));
  assert.deepEqual(adapters.map((one) => one.type), ["claude_k8s", "opencode_k8s", "claude_k8s", "claude_k8s"]);
  const runs = adapters.map((one, index) => one.execute(new Server({ runId: `run-${index}` }).ctx));
  assert.deepEqual(await Promise.all(runs), adapters.map(() => RESULT));
  const types = launcher.asked("run.execute").map((call) => call.params.context.agent.adapterType);
  assert.deepEqual(types.toSorted(), ["claude_k8s", "claude_k8s", "claude_k8s", "opencode_k8s"]);
  assert.equal(launcher.connections <= 1, true);
});

test("a copy of this code that another release left goes on with its errors understood", async () => {
  const copied = path.join(mkdtempSync(path.join(tmpdir(), "adapter-")), "adapter");
  cpSync(ADAPTER, copied, { recursive: true });
  launcher.on["run.execute"] = () => {
    throw refusal("k8s_config_invalid", { result: { ...RESULT, errorCode: "k8s_config_invalid" } });
  };
  const adapter = await load(path.join(copied, "claude"));
  assert.equal((await adapter.execute(new Server().ctx)).errorCode, "k8s_config_invalid");
});

test("the module object has every member that the server reads", async () => {
  const claude = await load();
  for (const name of ["execute", "testEnvironment", "listModels", "listSkills", "syncSkills", "getConfigSchema"]) {
    assert.equal(typeof claude[name], "function", name);
  }
  for (const name of ["supportsLocalAgentJwt", "supportsInstructionsBundle"]) assert.equal(claude[name], true, name);
  assert.equal(claude.requiresMaterializedRuntimeSkills, false);
  assert.equal(claude.instructionsPathKey, "instructionsFilePath");
  assert.equal(claude.runtimeToolDelivery, "environment");
  assert.equal(claude.sessionManagement.nativeContextManagement, "confirmed");
  assert.match(claude.agentConfigurationDoc, /^# Claude \(Kubernetes\)/);
  const opencode = await load(path.join(ADAPTER, "opencode"));
  assert.equal(opencode.listSkills, undefined);
});

test("what the launcher is asked goes there under the adapter's own type", async () => {
  launcher.on["environment.test"] = () => ({ adapterType: "claude_k8s", status: "pass", checks: [], testedAt: "now" });
  launcher.on["models.list"] = () => ({ models: [{ id: "m", label: "M" }] });
  launcher.on["config.schema"] = () => ({ fields: [] });
  launcher.on["skills.list"] = launcher.on["skills.sync"] = () => ({ supported: true });
  const adapter = await load();
  const ctx = { companyId: "c", adapterType: "claude_k8s", config: { image: "x", odd: () => 1 } };
  assert.equal((await adapter.testEnvironment(ctx)).status, "pass");
  assert.deepEqual(await adapter.listModels(), [{ id: "m", label: "M" }]);
  assert.deepEqual(await adapter.getConfigSchema(), { fields: [] });
  assert.deepEqual(await adapter.listSkills(ctx), await adapter.syncSkills(ctx, ["a"]));
  const asked = launcher.calls.filter((call) => call.method.includes(".") && !call.method.startsWith("run."));
  assert.deepEqual(asked.map((call) => call.params), [
    { config: { image: "x" }, adapterType: "claude_k8s" },
    { adapterType: "claude_k8s" },
    { adapterType: "claude_k8s" },
    { config: { image: "x" }, adapterType: "claude_k8s" },
    { config: { image: "x" }, adapterType: "claude_k8s" },
  ]);
});

test("the models follow what the server itself is told of the provider", async () => {
  launcher.on["models.list"] = () => ({ models: [{ id: "m", label: "M" }] });
  process.env.CLAUDE_CODE_USE_BEDROCK = "1";
  try {
    await (await load()).listModels();
  } finally {
    delete process.env.CLAUDE_CODE_USE_BEDROCK;
  }
  const [{ params }] = launcher.asked("models.list");
  assert.deepEqual(params.environment, { CLAUDE_CODE_USE_BEDROCK: "1" });
});

test("without a launcher there are still a form, models and the reason", async () => {
  const kept = globalThis[SHARED];
  delete globalThis[SHARED];
  process.env.PAPERCLIP_LAUNCHER_SOCKET = "/nowhere/s";
  try {
    const adapter = await load();
    const report = await adapter.testEnvironment({ config: {} });
    assert.equal(report.status, "fail");
    assert.deepEqual([report.checks[0].code, report.checks[0].level], ["launcher_unreachable", "error"]);
    assert.match(report.checks[0].message, /\/nowhere\/s: ENOENT/);
    assert.ok((await adapter.getConfigSchema()).fields.length > 20);
    assert.ok((await adapter.listModels()).length > 3);
    const skills = await adapter.listSkills({ config: { paperclipSkillSync: { desiredSkills: ["a"] } } });
    assert.deepEqual(skills.desiredSkills, ["a"]);
    assert.match(skills.warnings[0], /could not be asked/);
  } finally {
    globalThis[SHARED] = kept;
    process.env.PAPERCLIP_LAUNCHER_SOCKET = launcher.path;
  }
});

for (const [what, harm] of [
  ["without its description", (folder) => rmSync(path.join(folder, "claude/described.json"))],
  ["with a broken description", (folder) => writeFileSync(path.join(folder, "claude/described.json"), "{")],
  ["of another type", (folder) => writeFileSync(path.join(folder, "claude/described.json"), '{"type":"x"}')],
  ["without what the types share", (folder) => rmSync(path.join(folder, "source"), { recursive: true })],
  ["with a broken part", (folder) => writeFileSync(path.join(folder, "source/execute.js"), "export const = 1")],
]) {
  test(`an adapter ${what} loads all the same, runs nothing and says why`, async () => {
    const folder = path.join(mkdtempSync(path.join(tmpdir(), "adapter-")), "adapter");
    cpSync(ADAPTER, folder, { recursive: true });
    harm(folder);
    const adapter = await load(path.join(folder, "claude"));
    assert.equal(adapter.type, "claude_k8s");
    const result = await adapter.execute(new Server().ctx);
    assert.equal(result.errorCode, "adapter_not_loaded");
    assert.match(result.errorMessage, /nothing was run/);
    assert.equal((await adapter.testEnvironment({ config: {} })).status, "fail");
  });
}
