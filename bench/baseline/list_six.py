#!/usr/bin/env python3
"""Starts the real servers at once and hand-speaks handshake and list to each: what listing them costs at least.

    bench/baseline/list_six.py SERVERS.json

SERVERS.json is what .ci/real-servers writes. Prints {"tools": N, "seconds": X, "servers": {NAME: {"tools": N, "seconds": X}}};
the seconds are from the first start to the last list. Exits with 1 if a server does not answer within a minute.
"""

import json
import os
import selectors
import subprocess
import sys
import time

DEADLINE_SECONDS = 60

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "baseline", "version": "0"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Server:
    """One server on its way through initialize, initialized and every page of tools/list."""

    def __init__(self, name, entry):
        self.name, self.tools, self.seconds, self.buffer = name, 0, None, b""
        command = [entry["command"], *entry["args"]]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=entry.get("cwd"), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0
        )
        self.send(INITIALIZE)

    def send(self, *messages):
        self.process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def list(self, cursor=None):
        params = {"cursor": cursor} if cursor else {}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}

    def read(self):
        """Takes what has come. True when the last page is there."""
        part = os.read(self.process.stdout.fileno(), 1 << 20)
        if not part:
            sys.exit(f"list_six: {self.name} ended with status {self.process.wait()}")
        *lines, self.buffer = (self.buffer + part).split(b"\n")
        return any([self.receive(json.loads(line)) for line in lines if line.strip()])

    def receive(self, message):
        if "error" in message:
            sys.exit(f"list_six: {self.name} answered {message['error']}")
        if "method" in message or "result" not in message:
            return False
        if message["id"] == 0:
            self.send(INITIALIZED, self.list())
            return False
        self.tools += len(message["result"]["tools"])
        cursor = message["result"].get("nextCursor")
        if cursor:
            self.send(self.list(cursor))
        return not cursor


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: list_six.py SERVERS.json")
    with open(sys.argv[1], encoding="utf-8") as file:
        entries = json.load(file)
    started = time.monotonic()
    servers = [Server(name, entry) for name, entry in entries.items()]
    try:
        list_all(servers, started)
    finally:
        stop_all(servers)
    each = {server.name: {"tools": server.tools, "seconds": round(server.seconds, 3)} for server in servers}
    total = {"tools": sum(server.tools for server in servers), "seconds": max(server["seconds"] for server in each.values())}
    print(json.dumps({**total, "servers": each}))


def list_all(servers, started):
    with selectors.DefaultSelector() as selector:
        for server in servers:
            selector.register(server.process.stdout, selectors.EVENT_READ, server)
        while selector.get_map():
            ready = selector.select(started + DEADLINE_SECONDS - time.monotonic())
            if not ready:
                late = ", ".join(key.data.name for key in selector.get_map().values())
                sys.exit(f"list_six: no answer within {DEADLINE_SECONDS} s from {late}")
            for key, _ in ready:
                if key.data.read():
                    key.data.seconds = time.monotonic() - started
                    selector.unregister(key.fileobj)


def stop_all(servers):
    """After the measurement: end of input, then the hard way."""
    for server in servers:
        server.process.stdin.close()
    for server in servers:
        try:
            server.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()


if __name__ == "__main__":
    main()
