// The context of a run as plain JSON: what the launcher reads of it, without functions and cycles.

const AGENT = ["id", "companyId", "name", "role", "title"];
const RUNTIME = ["sessionId", "sessionParams", "sessionDisplayId", "taskKey"];

export function plainContext(ctx, adapterType) {
  return plain({
    runId: ctx.runId,
    agent: { ...pick(ctx.agent, AGENT), adapterType },
    runtime: pick(ctx.runtime, RUNTIME),
    config: ctx.config ?? {},
    context: ctx.context ?? {},
    authToken: ctx.authToken,
    runtimeTools: ctx.runtimeTools,
  });
}

function pick(tree, names) {
  return Object.fromEntries(names.filter((name) => tree?.[name] != null).map((name) => [name, tree[name]]));
}

/** A copy that JSON can hold: what it cannot hold, and what leads back to itself, is left out. */
export function plain(tree) {
  return copy(tree, new Set()) ?? {};
}

function copy(value, above) {
  if (typeof value === "bigint") return value.toString();
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value !== "object" || above.has(value)) return undefined;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  above.add(value);
  const found = Array.isArray(value)
    ? value.map((one) => copy(one, above) ?? null)
    : Object.fromEntries(
        Object.entries(value)
          .map(([key, one]) => [key, copy(one, above)])
          .filter(([, one]) => one !== undefined),
      );
  above.delete(value);
  return found;
}
