#!/usr/bin/env python3
"""Counts the instructions that `switchboard serve` executes for one call, with callgrind.

    cargo build --release --workspace --bin bench --bin switchboard
    bench/baseline/gateway_instructions.py [http|stdio] [--era legacy|modern] [--calls N] [--top N] [--system-calls] [--folder DIR]

64 calls are always in flight, over 64 connections or one pair of pipes, to the demo server over stdio, with the gate and the audit log
on. The start of the gateway and the first calls are not counted, nor is what the kernel does. `--top` lists the functions with the most
instructions of their own; `--system-calls` counts those of a second run, with strace.
"""

import argparse
import collections
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time

IN_FLIGHT = 64
ARGUMENTS = {"message": "thirty-two characters of a text."}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "0"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("edge", nargs="?", choices=["http", "stdio"], default="http")
    parser.add_argument("--calls", type=int, default=3200)
    parser.add_argument("--era", choices=["legacy", "modern"], default="legacy")
    parser.add_argument("--top", type=int, default=0)
    parser.add_argument("--folder", default="target/release")
    parser.add_argument("--system-calls", action="store_true")
    args = parser.parse_args()
    # On one core the gateway has one worker, as in `bench gateway`.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(prefix="gateway-instructions-") as folder:
        count = instructions(args, folder)
        print(f"{args.edge} to stdio, {args.era}: {count:,} instructions per call")
        if args.system_calls:
            print(*system_calls(args, folder), sep="\n")


def instructions(args, folder):
    out = os.path.join(folder, "callgrind.out")
    wrapper = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
    with Gateway(args, folder, wrapper) as gateway:
        gateway.call(IN_FLIGHT * 10)
        control(gateway.process.pid, "-i", "on")
        gateway.call(args.calls)
        control(gateway.process.pid, "-i", "off")
    total = sum(int(total) for total in re.findall(r"^(?:summary|totals): (\d+)", read(out), re.MULTILINE))
    if args.top:
        print_top(out, args.top, args.calls)
    return total // args.calls


def system_calls(args, folder):
    out = os.path.join(folder, "strace.out")
    # Attached after the start, so that only the calls are counted.
    with Gateway(args, folder, []) as gateway:
        gateway.call(IN_FLIGHT * 10)
        tracer = subprocess.Popen(
            ["strace", "-f", "-c", "-o", out, "-p", str(gateway.process.pid)], stderr=subprocess.PIPE, text=True
        )
        tracer.stderr.readline()
        gateway.call(args.calls)
        tracer.terminate()
        tracer.wait()
    for line in read(out).splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
            count = int(fields[3]) / args.calls
            if count >= 0.01:
                yield f"{count:8.2f} {fields[-1]} per call"


def control(process, *words):
    subprocess.run(["callgrind_control", *words, str(process)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def print_top(out, count, calls):
    listing = subprocess.run(
        ["callgrind_annotate", "--show=Ir", "--threshold=99", out], check=True, capture_output=True, text=True
    ).stdout
    shown = 0
    for line in listing.splitlines():
        found = re.match(r"\s*([\d,]+) \([^)]*\)\s+(.*)", line)
        if found and "PROGRAM TOTALS" not in line and shown < count:
            shown += 1
            own = int(found[1].replace(",", "")) // calls
            name = found[2].removeprefix("???:").split(" [")[0]
            print(f"{own:8,} {name[:150]}")


class Gateway:
    """A running gateway with its client."""

    def __init__(self, args, folder, wrapper):
        program = os.path.abspath(os.path.join(args.folder, "switchboard"))
        server = [os.path.abspath(os.path.join(args.folder, "bench")), "__demo", "--era", args.era]
        config = os.path.join(folder, "switchboard.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'[permissions]\nmode = "ask"\nallow = ["demo"]\n[servers.demo]\ncommand = {json.dumps(server[0])}\n')
            file.write(f"args = {json.dumps(server[1:])}\n")
        names = {"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "run"}
        folders = {name: os.path.join(folder, part) for name, part in names.items()}
        environment = os.environ | folders
        ours = [program, "-c", config]
        if args.edge == "stdio":
            self.process = subprocess.Popen(
                [*wrapper, *ours, "serve"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self.client = LineClient(self.process, args.era)
            return
        # The second gateway of a run has a token of its own.
        new_token = [*ours, "token", "new", f"bench{len(wrapper)}"]
        made = subprocess.run(new_token, env=environment, capture_output=True, text=True, check=True)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [*wrapper, *ours, "serve", "--http", f"127.0.0.1:{port}"], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.client = HttpClient(port, made.stdout.strip(), args.era)

    def call(self, count):
        self.client.call(count)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def message(number, method, params, era):
    if era == "modern":
        params = params | {"_meta": MODERN_META}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, separators=(",", ":")).encode()


def tool_call(number, era):
    return message(number, "tools/call", {"name": "mcp__demo__echo", "arguments": ARGUMENTS}, era)


def check(answer):
    if ARGUMENTS["message"].encode() not in answer or b'"isError":true' in answer:
        sys.exit(f"a call was answered {answer!r}")


INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}}


class LineClient:
    def __init__(self, process, era):
        self.era, self.number, self.received = era, 1, b""
        self.input, self.output = process.stdin, process.stdout
        if era == "legacy":
            self.input.write(message(0, "initialize", INITIALIZE, era) + b"\n")
            self.input.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
            self.input.flush()
            while b'"id":0' not in self.received:
                self.received += os.read(self.output.fileno(), 1 << 16)
            self.received = b""
        self.call(1)

    def call(self, count):
        sent = answered = 0
        while answered < count:
            ready = min(IN_FLIGHT - (sent - answered), count - sent)
            if ready:
                lines = [tool_call(self.number + at, self.era) + b"\n" for at in range(ready)]
                self.number += ready
                sent += ready
                self.input.write(b"".join(lines))
                self.input.flush()
            # All that are there are read before the next are sent, as a busy client does.
            self.received += os.read(self.output.fileno(), 1 << 16)
            *lines, self.received = self.received.split(b"\n")
            for line in lines:
                if b'"id":' in line:
                    check(line)
                    answered += 1


class HttpClient:
    def __init__(self, port, token, era):
        self.era, self.number = era, 1
        version = {"legacy": "2025-11-25", "modern": "2026-07-28"}[era]
        self.head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\nAuthorization: Bearer {token}\r\n"
        )
        if era == "modern":
            self.head += "Mcp-Method: tools/call\r\nMcp-Name: mcp__demo__echo\r\n"
        deadline = time.monotonic() + 60
        while True:
            try:
                first = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                if time.monotonic() > deadline:
                    sys.exit("the gateway does not listen")
                time.sleep(0.2)
        if era == "legacy":
            head = self.exchange(first, message(0, "initialize", INITIALIZE, era))
            session = re.search(rb"(?i)mcp-session-id: (\S+)", head)[1].decode()
            self.head += f"Mcp-Session-Id: {session}\r\n"
            self.exchange(first, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        self.connections = [first] + [socket.create_connection(("127.0.0.1", port)) for _ in range(IN_FLIGHT - 1)]
        # The first call waits until the server is connected.
        self.exchange(first, tool_call(self.number, era))
        self.number += 1

    def exchange(self, connection, body):
        connection.sendall(self.request(body))
        received = b""
        while not is_complete(received):
            received += connection.recv(1 << 16)
        return received

    def request(self, body):
        return f"{self.head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def call(self, count):
        waiting = selectors.DefaultSelector()
        received = collections.defaultdict(bytes)
        sent = answered = 0

        def send(connection):
            nonlocal sent
            sent += 1
            connection.sendall(self.request(tool_call(self.number, self.era)))
            self.number += 1

        for connection in self.connections[:count]:
            waiting.register(connection, selectors.EVENT_READ)
            send(connection)
        while answered < count:
            for key, _ in waiting.select():
                connection = key.fileobj
                received[connection] += connection.recv(1 << 16)
                if not is_complete(received[connection]):
                    continue
                check(received.pop(connection))
                answered += 1
                if sent < count:
                    send(connection)


def is_complete(received):
    head, found, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(found) and len(body) >= int(length[1] if length else 0)


if __name__ == "__main__":
    main()
