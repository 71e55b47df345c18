import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { Connection, isLost } from "../../../adapter/source/connection.js";
import { openDoor } from "../../../adapter/source/doors.js";
import { LineSplitter } from "../../../adapter/source/lines.js";
import { pieces } from "../../../adapter/source/log.js";
import { readSettings } from "../../../adapter/source/settings.js";
import { moment } from "./fake.mjs";

function door() {
  const [input, output] = [new PassThrough(), new PassThrough()];
  return { input, output, close: () => input.destroy(), ref: () => {}, unref: () => {} };
}

test("lines are whole wherever the stream is cut, within a line or a character", () => {
  const text = '{"a":"ä€😀"}\n\n{"b":1}\n';
  const bytes = Buffer.from(text);
  for (let size = 1; size <= bytes.length; size += 1) {
    const splitter = new LineSplitter();
    const lines = [];
    for (let at = 0; at < bytes.length; at += size) lines.push(...splitter.feed(bytes.subarray(at, at + size)));
    assert.deepEqual(lines, ['{"a":"ä€😀"}', "", '{"b":1}']);
  }
});

test("only a line feed ends a line", () => {
  const text = '{"a":"x\u2028y\u0085z"}';
  assert.deepEqual([...new LineSplitter().feed(Buffer.from(`${text}\r\n`))], [`${text}\r`]);
});

test("a line without an end is not kept for ever", () => {
  const splitter = new LineSplitter();
  const chunk = Buffer.alloc(16 << 20, 120);
  assert.throws(() => {
    for (let count = 0; count < 5; count += 1) for (const _ of splitter.feed(chunk));
  }, RangeError);
});

test("a chunk for the server ends with a line where it can, and never within a character", () => {
  const cases = ["", "abc", "ab\ncd\nefgh", "abcdefghij", "ab😀cd😀ef😀", "😀😀😀😀", "\n\n\n\n\n\n", "abc\ndefgh"];
  for (const text of cases) {
    const found = [...pieces(text, 5)];
    assert.equal(found.join(""), text);
    for (const piece of found) assert.ok(piece.length <= 5 && piece.isWellFormed() && piece !== "", piece);
  }
  assert.deepEqual([...pieces("ab\ncd\nefgh", 5)], ["ab\n", "cd\n", "efgh"]);
});

test("what is no line of the protocol ends the connection", async () => {
  for (const bad of ["nonsense", "[1", "null", '"text"', "17"]) {
    const one = door();
    const connection = new Connection(one, () => {});
    const request = connection.call("ping", {});
    one.input.write(`${bad}\n`);
    await assert.rejects(request, (error) => isLost(error) && /no line of its protocol/.test(error.message));
    assert.match(await connection.closed, /no line of its protocol/);
  }
});

test("an answer to nobody is passed over", async () => {
  const one = door();
  const connection = new Connection(one, () => {});
  const request = connection.call("ping", {});
  one.input.write('{"jsonrpc":"2.0","id":99,"result":{}}\n{"jsonrpc":"2.0","id":null,"error":{"code":1}}\n');
  one.input.write('{"jsonrpc":"2.0","id":1,"result":{"x":1}}\n');
  assert.deepEqual(await request, { x: 1 });
  connection.end("test");
});

test("a request that nobody answers in its time is lost, and its late answer is nothing to anybody", async () => {
  const one = door();
  const connection = new Connection(one, () => {});
  const late = (error) => isLost(error) && /0.01 s/.test(error.message);
  await assert.rejects(connection.call("environment.test", {}, 10), late);
  one.input.write('{"jsonrpc":"2.0","id":1,"result":{}}\n');
  await moment();
  assert.equal(connection.ended, null);
  connection.end("test");
});

test("a launcher that hangs is taken for dead", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "Date"], now: 0 });
  const one = door();
  const connection = new Connection(one, () => {});
  const request = connection.call("run.execute", {});
  for (let passed = 0; passed < 120_000; passed += 20_000) t.mock.timers.tick(20_000);
  await assert.rejects(request, (error) => isLost(error) && /said nothing for 90 s/.test(error.message));
});

test("one that answers its pings lives, however long a run is silent", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "Date"], now: 0 });
  const one = door();
  const connection = new Connection(one, () => {});
  connection.call("run.execute", {}).catch(() => {});
  one.output.on("data", (chunk) => {
    const { id, method } = JSON.parse(chunk);
    if (method === "ping") one.input.write(`{"jsonrpc":"2.0","id":${id},"result":{}}\n`);
  });
  for (let passed = 0; passed < 600_000; passed += 20_000) {
    t.mock.timers.tick(20_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(connection.ended, null);
  connection.end("test");
});

test("settings come from the environment, and what is wrong with them is said when they are used", () => {
  assert.deepEqual(readSettings({}).command, ["paperclip-launcher", "serve", "--stdio"]);
  assert.equal(readSettings({ PAPERCLIP_LAUNCHER_SOCKET: " /run/s " }).socket, "/run/s");
  assert.deepEqual(readSettings({ PAPERCLIP_LAUNCHER_COMMAND: '["a","b"]' }).command, ["a", "b"]);
  for (const bad of ["a b", "[]", "{}", '[""]', "[1]", '"a"']) {
    assert.match(readSettings({ PAPERCLIP_LAUNCHER_COMMAND: bad }).problem, /no JSON list of texts/, bad);
    assert.equal(readSettings({ PAPERCLIP_LAUNCHER_COMMAND: bad, PAPERCLIP_LAUNCHER_SOCKET: "/s" }).problem, "");
  }
  assert.equal(readSettings({ PAPERCLIP_LAUNCHER_PATIENCE_SECONDS: "2" }).patience, 2000);
  assert.equal(readSettings({ PAPERCLIP_LAUNCHER_PATIENCE_SECONDS: "-1" }).patience, 3_600_000);
});

test("a child gets the environment of the server without what is the server's own", async () => {
  const names = ["DATABASE_URL", "PAPERCLIP_AGENT_JWT_SECRET", "PAPERCLIP_TOOL_ACTION_SIGNING_SECRET", "PGPASSWORD"];
  for (const name of names) process.env[name] = "private";
  process.env.ANTHROPIC_API_KEY = "for agents";
  const script = "process.stdout.write(JSON.stringify(process.env) + '\\n'); process.stdin.resume()";
  const door = await openDoor({ socket: "", problem: "", command: [process.execPath, "-e", script] });
  const [line] = await new Promise((resolve) => {
    const splitter = new LineSplitter();
    door.input.on("data", (chunk) => {
      const lines = [...splitter.feed(chunk)];
      if (lines.length > 0) resolve(lines);
    });
  });
  const environment = JSON.parse(line);
  assert.deepEqual(names.filter((name) => name in environment), []);
  assert.equal(environment.ANTHROPIC_API_KEY, "for agents");
  assert.equal(environment.PATH, process.env.PATH);
  door.close();
});

test("a child that cannot be started says what to do", async () => {
  const settings = { socket: "", problem: "", command: ["no-such-program"] };
  await assert.rejects(openDoor(settings), /no-such-program: ENOENT. Install it, or name it in PAPERCLIP_/);
  await assert.rejects(openDoor({ ...settings, problem: "it is wrong" }), /it is wrong/);
});
