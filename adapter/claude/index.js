// Paperclip's server imports this file and calls createServerAdapter(). Nothing here may throw: the server runs the
// agents of an adapter that did not load with its built-in `process` adapter, on its own host.
const TYPE = "claude_k8s";

const loaded = await import("../source/module.js").catch((error) => ({ error }));

export function createServerAdapter() {
  try {
    if (loaded.error) throw loaded.error;
    return loaded.createModule(TYPE, new URL("./described.json", import.meta.url));
  } catch (error) {
    return broken(error);
  }
}

/** An adapter that runs nothing and says why. */
function broken(error) {
  const errorMessage = `the adapter ${TYPE} could not be loaded, so nothing was run: ${error?.message ?? error}`;
  return {
    type: TYPE,
    execute: async () => ({
      exitCode: null,
      signal: null,
      timedOut: false,
      errorCode: "adapter_not_loaded",
      errorMessage,
      executionRecovery: { kind: "bootstrap", providerWorkStarted: false },
    }),
    testEnvironment: async () => ({
      adapterType: TYPE,
      status: "fail",
      checks: [
        { code: "adapter_not_loaded", level: "error", message: errorMessage, hint: "Install the adapter again." },
      ],
      testedAt: new Date().toISOString(),
    }),
  };
}
