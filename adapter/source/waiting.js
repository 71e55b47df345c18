// Waiting that a signal can end.

/** After `milliseconds`, or once `signal` has fired. Never rejects. */
export function pause(milliseconds, signal) {
  if (milliseconds <= 0 || signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", done, { once: true });
  });
}

/** What `promise` gives, or `otherwise` after `milliseconds`. */
export function within(promise, milliseconds, otherwise) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve(otherwise), Math.max(0, milliseconds));
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** What `promise` gives, unless `signal` fires before: then it rejects with `reason`. */
export function unless(promise, signal, reason) {
  if (!signal) return promise;
  let stop;
  const stopped = new Promise((_, reject) => {
    stop = () => reject(reason);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
  return Promise.race([promise, stopped]).finally(() => signal.removeEventListener("abort", stop));
}
