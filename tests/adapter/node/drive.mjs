// The adapter as a process of its own, driven by lines of JSON: {execute: ctx}, {abort: runId}. What happens to a run
// is told in lines of JSON, too.
import { createInterface } from "node:readline";
import { createServerAdapter } from "../../../adapter/claude/index.js";

const adapter = createServerAdapter();
const controllers = new Map();
const tell = (runId, kind, more) => process.stdout.write(`${JSON.stringify({ runId, kind, ...more })}\n`);

async function execute(ctx) {
  const { runId } = ctx;
  const controller = new AbortController();
  controllers.set(runId, controller);
  const result = await adapter.execute({
    ...ctx,
    signal: controller.signal,
    onCancellationReady: async () => tell(runId, "ready"),
    onMeta: async (meta) => tell(runId, "meta", { meta }),
    onEvent: async (event) => tell(runId, "event", { event }),
    onLog: async (stream, text) => tell(runId, "log", { stream, text }),
    onDispatch: () => tell(runId, "dispatch"),
  });
  tell(runId, "result", { result });
}

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (order.execute) void execute(order.execute);
  if (order.abort) controllers.get(order.abort).abort();
  if (order.test) void adapter.testEnvironment({ config: order.test }).then((report) => tell("", "report", { report }));
}
