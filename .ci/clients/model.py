"""A model server with a script: it asks for one tool call after another, then says that it is done.

It speaks the wires of four vendors: Anthropic Messages, OpenAI Responses and Chat Completions, Google's generateContent. What a
client is told next depends on its request alone (how many results it carries), so retries and side requests do no harm.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DONE = "the script is at its end"


class ScriptedModel:
    """`calls` is a list of (ending of the tool's name, arguments)."""

    def __init__(self, calls):
        self.calls = calls
        self.offered = set()
        self.results = []
        self.paths = []
        self.lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.send(200, "application/json", json.dumps({"data": [], "models": []}).encode())

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                model.paths.append(self.path)
                self.send(*model.answer(self.path.split("?")[0], json.loads(body or b"{}")))

            def send(self, status, kind, body):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path, request):
        if path.endswith("/messages"):
            return self.anthropic(request)
        if path.endswith("/responses"):
            return self.responses(request)
        if path.endswith("/chat/completions"):
            return self.chat(request)
        if path.endswith("GenerateContent") or path.endswith("generateContent"):
            return self.gemini(request, path.endswith("streamGenerateContent"))
        return 200, "application/json", json.dumps({"input_tokens": 1, "totalTokens": 1}).encode()

    def next(self, tools, results):
        """The next call as (tool, arguments), or None at the end. `tools` maps the names that a client offers to anything."""
        with self.lock:
            self.offered.update(tools)
            if len(results) > len(self.results):
                self.results = results
        if len(results) >= len(self.calls):
            return None
        ending, arguments = self.calls[len(results)]
        # Some clients replace characters of a name.
        name = next((name for name in tools if name.replace("_", "-").endswith(ending)), None)
        return name and (name, arguments)

    def anthropic(self, request):
        tools = {tool["name"]: tool for tool in request.get("tools") or []}
        results, searches = [], 0
        for message in request["messages"]:
            for part in message["content"] if isinstance(message["content"], list) else []:
                if part["type"] == "tool_result" and part["tool_use_id"].startswith("toolu_search"):
                    searches += 1
                elif part["type"] == "tool_result":
                    results.append(part.get("content"))
        call, kind = self.next(tools, results), f"call_{len(results)}"
        if not call and "ToolSearch" in tools and searches <= len(results) < len(self.calls):
            # Claude Code holds back the tools of servers until its model has searched for them.
            call, kind = ("ToolSearch", {"query": self.calls[len(results)][0]}), f"search_{searches}"
        if call:
            block = {"type": "tool_use", "id": f"toolu_{kind}", "name": call[0], "input": {}}
            delta, stop = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}, "tool_use"
        else:
            block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": DONE}, "end_turn"
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": request["model"], "content": [], "stop_reason": None,
            "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not request.get("stream"):
            whole = dict(block, input=call[1]) if call else dict(block, text=DONE)
            return 200, "application/json", json.dumps(dict(message, content=[whole], stop_reason=stop)).encode()
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        return stream(events, named=True)

    def responses(self, request):
        tools = {}
        for tool in request.get("tools") or []:
            if tool["type"] == "namespace":
                tools.update({inner["name"]: {"namespace": tool["name"]} for inner in tool["tools"]})
            elif tool["type"] == "function":
                tools[tool["name"]] = {}
        results = [item["output"] for item in request["input"] if item.get("type") == "function_call_output"]
        call = self.next(tools, results)
        if call:
            item = {
                "type": "function_call", "id": f"fc_{len(results)}", "call_id": f"call_{len(results)}", "name": call[0],
                "arguments": json.dumps(call[1]), "status": "completed", **tools[call[0]],
            }
        else:
            text = {"type": "output_text", "text": DONE, "annotations": []}
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        usage = {
            "input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        response = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": request.get("model"),
                    "output": [item], "usage": usage}
        if not request.get("stream"):
            return 200, "application/json", json.dumps(response).encode()
        return stream([
            {"type": "response.created", "response": dict(response, status="in_progress", output=[])},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ], named=True)

    def chat(self, request):
        tools = {tool["function"]["name"]: tool for tool in request.get("tools") or []}
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        call = self.next(tools, results)
        delta, end = {"role": "assistant", "content": DONE}, "stop"
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            asked = {"index": 0, "id": f"call_{len(results)}", "type": "function", "function": function}
            delta, end = {"role": "assistant", "content": None, "tool_calls": [asked]}, "tool_calls"
        head = {"id": "chat_1", "created": 1, "model": request.get("model"), "usage": None}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not request.get("stream"):
            choice = {"index": 0, "message": delta, "finish_reason": end}
            whole = dict(head, object="chat.completion", choices=[choice], usage=usage)
            return 200, "application/json", json.dumps(whole).encode()
        head["object"] = "chat.completion.chunk"
        return stream([
            dict(head, choices=[{"index": 0, "delta": delta, "finish_reason": None}]),
            dict(head, choices=[{"index": 0, "delta": {}, "finish_reason": end}]),
            dict(head, choices=[], usage=usage),
        ], last="[DONE]")

    def gemini(self, request, is_stream):
        declared = [tool for group in request.get("tools") or [] for tool in group.get("functionDeclarations") or []]
        tools = {tool["name"]: tool for tool in declared}
        parts = [part for content in request.get("contents") or [] for part in content.get("parts") or []]
        results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
        call = self.next(tools, results)
        part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": DONE}
        answer = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        }
        if is_stream:
            return stream([answer])
        return 200, "application/json", json.dumps(answer).encode()


def stream(events, named=False, last=None):
    """Server-sent events."""
    text = ""
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        text += f"{name}data: {json.dumps(event)}\n\n"
    if last:
        text += f"data: {last}\n\n"
    return 200, "text/event-stream", text.encode()
