// Calls the demo server's echo tool through the official TypeScript SDK, on order:  node http_calls.mjs URL legacy|modern
//
// Reads orders from stdin, `one N` or `many WIDTH N`, and answers each with one number: the median of N calls made one after the other in
// seconds, or calls per second. Says `ready` once its session is open. Ends with its input.

import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, era] = process.argv.slice(2);
const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
const session = new Client({ name: "bench", version: "0" }, { versionNegotiation: { mode } });
await session.connect(new StreamableHTTPClientTransport(new URL(url)));
await session.listTools();

async function call() {
  const result = await session.callTool({ name: "echo", arguments: { message: "thirty-two characters of a text." } });
  if (!(result.content[0]?.text?.length >= 32)) throw new Error(`an answer without its text: ${JSON.stringify(result)}`);
}

async function one(calls) {
  const times = [];
  for (let index = 0; index < calls; index++) {
    const start = performance.now();
    await call();
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  return times[Math.floor(times.length / 2)] / 1000;
}

async function many(width, calls) {
  const share = Math.ceil(calls / width);
  const start = performance.now();
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (let index = 0; index < share; index++) await call();
    }),
  );
  return (share * width * 1000) / (performance.now() - start);
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [order, ...numbers] = line.trim().split(" ");
  console.log(await (order === "one" ? one : many)(...numbers.map(Number)));
}
await session.close();
