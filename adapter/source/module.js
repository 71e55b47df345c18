// The module object that Paperclip's server keeps for one adapter type.
import { readFileSync } from "node:fs";
import { isLost } from "./connection.js";
import { plain } from "./context.js";
import { execute } from "./execute.js";
import { sharedLink } from "./link.js";
import { readSettings } from "./settings.js";
import { sessionCodec } from "./session.js";

const VERSION = "0.1.0";
const TEST_MS = 90_000;
const ASK_MS = 20_000;

/** Throws where `described`, the URL of described.json, cannot be read. */
export function createModule(type, described) {
  const facts = JSON.parse(readFileSync(described, "utf8"));
  if (facts.type !== type) throw new Error(`${described.pathname} is of ${facts.type}, not of ${type}`);
  const link = sharedLink(readSettings(process.env), VERSION);
  // What takes up left-over runs should be there before the first wake; one that is not yet is no matter.
  setImmediate(() => link.connection().catch(() => {})).unref();
  return {
    ...facts.members,
    type,
    execute: (ctx) => execute(ctx, type, link),
    testEnvironment: (ctx) => testEnvironment(ctx, type, link),
    sessionCodec: sessionCodec(facts.session),
    listModels: () => listModels(facts, type, link),
    refreshModels: () => listModels(facts, type, link),
    getConfigSchema: () => configSchema(facts, type, link),
    ...(facts.supportsSkills && {
      listSkills: (ctx) => skills("skills.list", ctx, type, link),
      syncSkills: (ctx) => skills("skills.sync", ctx, type, link),
    }),
  };
}

async function testEnvironment(ctx, adapterType, link) {
  try {
    return await link.ask("environment.test", { config: plain(ctx.config ?? {}), adapterType }, TEST_MS);
  } catch (error) {
    const check = {
      code: isLost(error) ? "launcher_unreachable" : `${error.code}`,
      level: "error",
      message: `The launcher did not test the environment: ${error.message}`,
      hint:
        error.data?.remedy ||
        "See whether the launcher runs: the sidecar `launcher` of the server's pod, or the program in " +
          "PAPERCLIP_LAUNCHER_COMMAND; its log says what it lacks.",
    };
    return { adapterType, status: "fail", checks: [check], testedAt: new Date().toISOString() };
  }
}

/** By what the server itself is told of the agents' provider, else by what the launcher is. */
async function listModels(facts, adapterType, link) {
  const known = facts.modelVariables.filter((name) => process.env[name]);
  const environment = Object.fromEntries(known.map((name) => [name, process.env[name]]));
  try {
    const params = { adapterType, ...(known.length > 0 && { environment }) };
    return (await link.ask("models.list", params, ASK_MS)).models;
  } catch {
    return facts.members.models;
  }
}

/** The form must be there while the launcher is not: an agent's config is not lost for that. */
async function configSchema(facts, adapterType, link) {
  try {
    return await link.ask("config.schema", { adapterType }, ASK_MS);
  } catch {
    return facts.configSchema;
  }
}

/** What is wanted is stored with the agent, launcher or not; only what becomes of it cannot be said. */
async function skills(method, ctx, adapterType, link) {
  const config = plain(ctx.config ?? {});
  try {
    return await link.ask(method, { config, adapterType }, ASK_MS);
  } catch (error) {
    const desiredSkills = config.paperclipSkillSync?.desiredSkills ?? [];
    const warnings = [`The launcher could not be asked what skills there are: ${error.message}`];
    return { adapterType, supported: true, mode: "ephemeral", desiredSkills, entries: [], warnings };
  }
}
