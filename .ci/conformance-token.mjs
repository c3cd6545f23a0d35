// Adds a bearer token to every HTTP request of the conformance suite, which has no option for headers.
import http from "node:http";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { realpathSync } from "node:fs";

const { Agent, setGlobalDispatcher } = createRequire(realpathSync(process.argv[1]))("undici");
const authorization = `Bearer ${process.env.CONFORMANCE_TOKEN}`;

const withToken = (headers) => {
  if (Array.isArray(headers)) return [...headers, "authorization", authorization];
  if (headers && typeof headers[Symbol.iterator] === "function") return [...headers, ["authorization", authorization]];
  return { ...headers, authorization };
};
const addToken = (dispatch) => (options, handler) => dispatch({ ...options, headers: withToken(options.headers) }, handler);
setGlobalDispatcher(new Agent().compose(addToken));

const request = http.request;
http.request = (...args) => {
  const made = request(...args);
  if (!made.hasHeader("authorization")) made.setHeader("authorization", authorization);
  return made;
};
syncBuiltinESMExports();
