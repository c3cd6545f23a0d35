// A client made with the TypeScript SDK: lists, calls what it is told to, and prints what it saw as one line of JSON.
//
//     node sdk.mjs v1|v2 PACKAGES '{"command": …, "args": …} | {"url": …, "token": …}' '[["TOOL", {ARGUMENTS}], …]'
//
// With `watch` in place of the calls it prints the names of all tools, and again after each change that it is notified of, until its
// stdin ends.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [version, packages, target, calls] = process.argv.slice(2);
const require = createRequire(`${packages}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)).href).then((module) => module.default?.Client ? module.default : module);
const v1 = version === "v1";
const sdk = v1
    ? {
        ...(await load("@modelcontextprotocol/sdk/client/index.js")),
        ...(await load("@modelcontextprotocol/sdk/client/stdio.js")),
        ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
        ...(await load("@modelcontextprotocol/sdk/types.js")),
    }
    : { ...(await load("@modelcontextprotocol/client")), ...(await load("@modelcontextprotocol/client/stdio")) };

const saw = { elicited: [], sampled: 0, progress: 0, results: {} };
const capabilities = { elicitation: {}, sampling: {}, roots: {} };
const watches = calls === "watch";
const printNames = (tools) => console.log(JSON.stringify(tools.map((tool) => tool.name)));
const onChanged = (error, tools) => error ? console.error(error) : printNames(tools);
const listChanged = watches ? { tools: { debounceMs: 0, onChanged } } : {};
const options = { capabilities, listChanged, versionNegotiation: { mode: "auto" } };
const client = new sdk.Client({ name: `typescript-${version}`, version: "1" }, options);
const handle = (method, schema, handler) => client.setRequestHandler(v1 ? sdk[schema] : method, handler);
handle("elicitation/create", "ElicitRequestSchema", (request) => {
    saw.elicited.push(request.params.message);
    return { action: "decline" };
});
handle("sampling/createMessage", "CreateMessageRequestSchema", () => {
    saw.sampled += 1;
    return { model: "scripted", role: "assistant", content: { type: "text", text: "sampled" } };
});
handle("roots/list", "ListRootsRequestSchema", () => ({ roots: [{ uri: "file:///tmp", name: "tmp" }] }));

const { command, args, url, token } = JSON.parse(target);
const transport = url
    ? new sdk.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } })
    : new sdk.StdioClientTransport({ command, args, env: process.env, stderr: "ignore" });
await client.connect(transport);
const call = (name, input, options) => {
    const params = { name, arguments: input };
    return v1 ? client.callTool(params, undefined, options) : client.callTool(params, options);
};
const list = await client.listTools();
if (watches) {
    printNames(list.tools);
    for await (const _ of process.stdin);
    await client.close();
    process.exit(0);
}
saw.tools = Object.fromEntries(list.tools.map((tool) => [tool.name, tool]));
for (const [name, input] of JSON.parse(calls)) {
    saw.results[name] = await call(name, input, { onprogress: () => { saw.progress += 1; } });
}
// A call that is cancelled ends at once for its client, and the next one is answered. Progress without a total is v2's own: it answers
// `input_required`, and no request is in flight.
const abort = new AbortController();
const onprogress = ({ total }) => { if (total) abort.abort("enough"); };
const long = call("trigger-long-running-operation", { duration: 60, steps: 60 }, { signal: abort.signal, onprogress });
saw.cancelled = await long.then(() => false, () => true);
saw.results.echo = await call("echo", { message: "after the cancelled call" });
console.log(JSON.stringify(saw));
await client.close();
process.exit(0);
