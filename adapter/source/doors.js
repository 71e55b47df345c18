// The two ways to a launcher: the Unix socket of a sidecar, or a child of this process.
import { spawn } from "node:child_process";
import net from "node:net";

const CONNECT_MS = 5000;
const LEAVE_MS = 6000;
// The server's own secrets: the launcher has no use for them.
const PRIVATE = /^(DATABASE_.*|PG.*|BETTER_AUTH_.*|PAPERCLIP_.*SECRET.*|PAPERCLIP_.*(MASTER_KEY|SIGNING).*)$/;

/** {input, output, close, ref, unref} of a new way to the launcher. Rejects with what to do about it. */
export function openDoor(settings) {
  if (settings.problem) return Promise.reject(new Error(settings.problem));
  return settings.socket ? openSocket(settings.socket) : openChild(settings.command);
}

function openSocket(path) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ path });
    const fail = (error) => {
      clearTimeout(timer);
      socket.destroy();
      reject(new Error(`no launcher at ${path}: ${reason(error)}. Is its container running?`));
    };
    const timer = setTimeout(() => fail(new Error(`no answer in ${CONNECT_MS / 1000} s`)), CONNECT_MS);
    socket.once("error", fail);
    socket.once("connect", () => {
      clearTimeout(timer);
      socket.off("error", fail);
      resolve({
        input: socket,
        output: socket,
        close: () => socket.destroy(),
        ref: () => socket.ref(),
        unref: () => socket.unref(),
      });
    });
  });
}

function openChild([program, ...parameters]) {
  return new Promise((resolve, reject) => {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !PRIVATE.test(name)));
    const child = spawn(program, parameters, { stdio: ["pipe", "pipe", "inherit"], env });
    const fail = (error) => {
      reject(
        new Error(
          `the launcher could not be started: ${program}: ${reason(error)}. Install it, ` +
            "or name it in PAPERCLIP_LAUNCHER_COMMAND or a sidecar's socket in PAPERCLIP_LAUNCHER_SOCKET",
        ),
      );
    };
    child.once("error", fail);
    child.once("spawn", () => {
      child.off("error", fail);
      child.on("error", () => {});
      const streams = [child, child.stdin, child.stdout];
      resolve({
        input: child.stdout,
        output: child.stdin,
        close: () => endChild(child),
        ref: () => streams.forEach((one) => one.ref()),
        unref: () => streams.forEach((one) => one.unref()),
      });
    });
  });
}

/** Its standard input ends, which is its own sign to end; one that does not heed it is killed. Runs go on. */
function endChild(child) {
  child.stdin.destroy();
  child.stdout.destroy();
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), LEAVE_MS);
  timer.unref();
  child.once("exit", () => clearTimeout(timer));
}

function reason(error) {
  return error.code ? `${error.code}` : error.message;
}
