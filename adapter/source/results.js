// What execute() gives back where the launcher gave no result.

const NOTHING_RAN = { kind: "bootstrap", providerWorkStarted: false };

/** Nothing was begun: the server may try again. */
export function neverBegun(message) {
  return {
    ...failed("launcher_unreachable", `The run was not begun: ${message}`),
    errorFamily: "transient_upstream",
    executionRecovery: NOTHING_RAN,
  };
}

/** Whatever else went wrong. Never a success: the server takes a null exit code alone for one. */
export function failed(errorCode, errorMessage, errorMeta) {
  return { exitCode: null, signal: null, timedOut: false, errorCode, errorMessage, ...(errorMeta && { errorMeta }) };
}

/** The run was cancelled before anything was begun. */
export function cancelledEarly() {
  const result = { ...failed("cancelled", "The run was cancelled before it began"), executionRecovery: NOTHING_RAN };
  return withCancellation(result, { state: "acknowledged", acknowledgedAt: new Date().toISOString(), forced: false });
}

export function withCancellation(result, cancellation) {
  const { state, acknowledgedAt, forced } = cancellation;
  const executionCancellation = { state, acknowledgedAt, forced };
  return { ...result, resultJson: { ...(result.resultJson ?? {}), executionCancellation } };
}
