"""A person's private folders with one gateway in them, whose only server is `server-everything`."""

import json
import os
import re
import subprocess
import tempfile
import time

# Longer than any step takes on a busy machine; a check that passes never waits for it.
PATIENCE_SECONDS = 240

# Nothing of the person who runs this may reach a client: neither files nor keys.
KEPT_VARIABLES = ("LANG", "TERM", "TMPDIR", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")


class Home:
    """Folders, the environment of everything that runs in them, and the gateway. `entry` is added to the server's entry, `options`
    to `switchboard serve`. With `is_project` the server stands in a `.mcp.json`, and there are no rules."""

    def __init__(self, program, server, node, entry="", options=(), is_project=False):
        self.folder = tempfile.TemporaryDirectory(prefix="switchboard-clients-")
        self.path = self.folder.name
        self.project = self.at("project")
        self.server = server
        programs = self.at("bin")
        for folder in (self.project, programs):
            os.makedirs(folder)
        os.symlink(program, os.path.join(programs, "switchboard"))
        # The clients' scripts start with `#!/usr/bin/env node`.
        os.symlink(node, os.path.join(programs, "node"))
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        self.environment = {
            **kept, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": self.path, "NO_COLOR": "1", "NO_PROXY": "*", "CI": "1",
        }
        if is_project:
            self.write("project/.mcp.json", json.dumps({"mcpServers": {"everything": server}}))
            self.switchboard("trust", "everything", "--yes")
        args = json.dumps(server["args"])
        self.write(".config/switchboard/switchboard.toml", "" if is_project else
                   f'[permissions]\nallow = ["*"]\n\n[servers.everything]\ncommand = {json.dumps(server["command"])}\nargs = {args}\n{entry}')
        command = ["switchboard", "serve", "--http", "127.0.0.1:0", *options]
        self.log = open(self.at("gateway.log"), "w+")
        self.gateway = subprocess.Popen(command, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, executable=program)
        self.url = self.wait_for(lambda: re.search(r"http://\S+/mcp", self.read("gateway.log")), "the gateway listens").group()
        # Later starts list from the cached catalog; the very first one has none yet.
        self.switchboard("--wait", str(PATIENCE_SECONDS // 4), "tools", "everything")

    def at(self, path):
        return os.path.join(self.path, path)

    def read(self, path):
        with open(self.at(path)) as file:
            return file.read()

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "w") as file:
            file.write(text)

    def wait_for(self, found, what):
        """Waits until `found` returns something."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            result = found()
            if result:
                return result
            if self.gateway.poll() is not None:
                raise AssertionError(f"the gateway ended with {self.gateway.returncode}: {self.read('gateway.log')}")
            time.sleep(0.05)
        raise AssertionError(f"not in time: {what}")

    def run(self, command, **environment):
        """Runs a program to its end; returns what it wrote to stdout."""
        try:
            ran = subprocess.run(command, cwd=self.project, env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
                                 text=True, capture_output=True, timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"{command[0]} did not end: {late.stdout} {late.stderr}") from None
        if ran.returncode:
            raise AssertionError(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}")
        return ran.stdout

    def switchboard(self, *words):
        return self.run([self.at("bin/switchboard"), *words])

    def token(self, client):
        header = json.loads(self.switchboard("token", "headers", client))["Authorization"]
        return header.removeprefix("Bearer ")

    def audit(self, client):
        """The calls of a client in the audit log: (tool, outcome)."""
        lines = []
        # The file is there from the first line on.
        path = ".local/state/switchboard/audit/audit.jsonl"
        for line in self.read(path).splitlines() if os.path.exists(self.at(path)) else []:
            entry = json.loads(line)
            if entry.get("client") == client and entry.get("method") == "tools/call":
                lines.append((entry["name"], entry.get("outcome")))
        return lines

    def close(self):
        self.gateway.terminate()
        try:
            self.gateway.wait(30)
        except subprocess.TimeoutExpired:
            self.gateway.kill()
            self.gateway.wait()
        self.log.close()
        self.folder.cleanup()
