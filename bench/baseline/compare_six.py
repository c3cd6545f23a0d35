#!/usr/bin/env python3
"""Compares `switchboard tools --json` on the real servers with the script that hand-speaks to them.

    bench/baseline/compare_six.py SERVERS.json target/release/switchboard [ROUNDS]

SERVERS.json is what .ci/real-servers writes. Interleaved rounds (5 unless told), medians, and the median of the ratios within each
round. Two contestants against list_six.py: `first`, with an empty state folder, which probes the era of each server, and `known`,
which remembers it. Two measures of each:

  listed   until all tools are listed: the script's own figure, which leaves out the start of its interpreter, against the time from
           the start of our process to the last byte of its answer
  command  the whole command, from start to exit, with all servers stopped

Exits with 1 if `known` is above 1.1 in either measure, or if the lists differ in length from what the script found.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

BAR = 1.1


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: compare_six.py SERVERS.json SWITCHBOARD [ROUNDS]")
    servers, program = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) == 4 else 5
    with tempfile.TemporaryDirectory(prefix="compare-six-") as folder:
        config = os.path.join(folder, "switchboard.toml")
        with open(servers, encoding="utf-8") as source, open(config, "w", encoding="utf-8") as target:
            target.write(as_toml(json.load(source)))
        known = os.path.join(folder, "known")
        # Not measured: files come into the page cache, and eras become known.
        script(servers)
        ours(program, config, known)
        rounds = []
        for index in range(count):
            contestants = {
                "script": lambda: script(servers),
                "first": lambda: ours(program, config, os.path.join(folder, f"first-{index}")),
                "known": lambda: ours(program, config, known),
            }
            names = list(contestants)
            # Each is first, second and last in turn.
            names = names[index % 3 :] + names[: index % 3]
            measured = {name: contestants[name]() for name in names}
            rounds.append(measured)
    sys.exit(report(rounds))


def as_toml(servers):
    """A JSON text is a TOML text; a single `$` may begin a reference, so it is doubled."""

    def text(value):
        return json.dumps(value.replace("$", "$$"), ensure_ascii=False)

    entries = []
    for name, server in servers.items():
        lines = [f"[servers.{text(name)}]", f"command = {text(server['command'])}"]
        lines.append(f"args = [{', '.join(map(text, server['args']))}]")
        if "cwd" in server:
            lines.append(f"cwd = {text(server['cwd'])}")
        entries.append("\n".join(lines) + "\n")
    return "\n".join(entries)


def script(servers):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "list_six.py")
    started = time.monotonic()
    done = subprocess.run([sys.executable, path, servers], stdout=subprocess.PIPE, check=True)
    command = time.monotonic() - started
    found = json.loads(done.stdout)
    return {"tools": found["tools"], "listed": found["seconds"], "command": command}


def ours(program, config, state):
    # In a home of its own: what this machine's person has remembered is not touched.
    environment = {**os.environ, "HOME": state, "XDG_STATE_HOME": state, "XDG_CONFIG_HOME": state}
    os.makedirs(state, exist_ok=True)
    started = time.monotonic()
    command = [program, "-c", config, "tools", "--json"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment) as process:
        # The answer is one line.
        answer = process.stdout.readline()
        listed = time.monotonic() - started
        if process.wait() != 0:
            sys.exit(f"compare_six: {' '.join(command)} ended with status {process.returncode}")
    whole = time.monotonic() - started
    return {"tools": len(json.loads(answer)["tools"]), "listed": listed, "command": whole}


def report(rounds):
    failed = False
    print(f"{'':10}{'tools':>7}{'listed':>24}{'ratio':>8}{'command':>24}{'ratio':>8}")
    for name in ("script", "first", "known"):
        line = f"{name:10}{rounds[0][name]['tools']:>7}"
        for measure in ("listed", "command"):
            figures = [each[name][measure] for each in rounds]
            spread = f"{statistics.median(figures):.2f} s ({min(figures):.2f}–{max(figures):.2f})"
            ratio = statistics.median(each[name][measure] / each["script"][measure] for each in rounds)
            line += f"{spread:>24}{ratio:>8.2f}"
            failed |= name == "known" and ratio > BAR
        print(line)
    # Some tools are shown only to those that can be asked, so ours may be more.
    failed |= any(each[name]["tools"] < each["script"]["tools"] for each in rounds for name in ("first", "known"))
    print(f"bar: known at most {BAR} × script, in both measures: {'FAILED' if failed else 'held'}")
    return 1 if failed else 0


if __name__ == "__main__":
    main()
