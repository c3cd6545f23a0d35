"""The stage of real clients: each one through the gateway, over `attach` and over HTTP.

    python3 run.py CLIENTS SERVERS PROGRAM RMCP_CLIENT [CLIENT…]

CLIENTS is the folder that `.ci/real-clients` fills, SERVERS the file that `.ci/real-servers` writes, PROGRAM the `switchboard` to
check, RMCP_CLIENT the program `rmcp-client` of this workspace, since rmcp comes without a client program. Not in the stage: VS Code,
Cursor, Windsurf, Zed, Cline, Continue, Kiro and Claude Desktop have no way to run without a screen; Copilot CLI and Amp do not run
without an account.
"""

import json
import os
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import agents
import first_steps
import gateway
import tools

HERE = os.path.dirname(os.path.abspath(__file__))


def main(folder, servers, program, rmcp_client, chosen):
    with open(servers) as file:
        servers = json.load(file)
    node = os.path.join(folder, "npm/node/node_modules/.bin/node")

    def installed(package, name):
        return os.path.join(folder, "npm", package, "node_modules", ".bin", name)

    checks = {}
    for agent in agents.AGENTS:
        for way in ("attach", "http"):
            checks[f"{agent.name} over {way}"] = (
                "named", lambda home, agent=agent, way=way: agents.check(agent, installed(agent.name, agent.program), home, way))
    python = os.path.join(os.path.dirname(servers["time"]["command"]), "python")
    typescript = [node, os.path.join(HERE, "sdk.mjs")]
    packages = os.path.join(folder, "npm/typescript-sdk")
    sdks = {
        "typescript-sdk v1": [*typescript, "v1", packages],
        "typescript-sdk v2": [*typescript, "v2", packages],
        "rmcp initialize": [rmcp_client, "initialize"],
        "rmcp auto": [rmcp_client, "auto"],
        "python-sdk": [python, os.path.join(HERE, "sdk.py")],
    }
    for sdk, command in sdks.items():
        client = sdk.replace(" ", "-")
        checks[sdk] = ("identity", lambda home, command=command, client=client: tools.sdk(home, command, client))
        # The script for Python does not wait for changes.
        if sdk != "python-sdk":
            checks[f"list-changes {sdk}"] = (
                "changing", lambda home, command=command, client=client: tools.list_changes(home, command, client))
    checks["inspector"] = ("identity", lambda home: tools.inspector(home, installed("inspector", "mcp-inspector")))
    checks["mcporter"] = ("identity", lambda home: tools.mcporter(home, installed("mcporter", "mcporter")))
    checks["first-steps"] = ("project", lambda home: first_steps.check(
        home, installed("claude-code", "claude"), installed("gemini", "gemini")))
    checks = {name: check for name, check in checks.items() if not chosen or name.split()[0] in chosen}

    # A legacy server on standard streams does not say whose call a question belongs to: several clients at once need a session each.
    identity = ["--names", "identity", "--schemas", "as-is"]
    homes = {
        "named": gateway.Home(program, servers["everything"], node),
        "identity": gateway.Home(program, servers["everything"], node, entry='session = "per-caller"\n', options=identity),
    }
    if any(name.startswith("list-changes") for name in checks):
        homes["changing"] = gateway.Home(program, servers["everything"], node)
    if "first-steps" in checks:
        homes["project"] = gateway.Home(program, servers["everything"], node, is_project=True)
    # An agent has one file: its two checks run one after the other. Others run beside it.
    locks = {name.split()[0]: threading.Lock() for name in checks}
    failed = []

    def run(name):
        kind, check = checks[name]
        with locks[name.split()[0]]:
            began = time.monotonic()
            try:
                check(homes[kind])
                print(f"ok {name} ({time.monotonic() - began:.1f} s)", flush=True)
            except Exception:
                failed.append(name)
                print(f"FAILED {name} ({time.monotonic() - began:.1f} s)\n{traceback.format_exc()[-6000:]}", flush=True)

    try:
        # The agents first, in the order of the table; by way last, so that two of one agent seldom wait for each other.
        order = sorted(checks, key=lambda name: name.endswith("http"))
        with ThreadPoolExecutor(max_workers=3) as pool:
            list(pool.map(run, order))
    finally:
        for home in homes.values():
            home.close()
    # The last line is read by .ci/run, like that of cargo test.
    word = "FAILED" if failed else "ok"
    print(f"test result: {word}. {len(checks) - len(failed)} passed; {len(failed)} failed; 0 ignored")
    return 1 if failed or not checks else 0


if len(sys.argv) < 5:
    sys.exit(__doc__)
sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2], os.path.abspath(sys.argv[3]), os.path.abspath(sys.argv[4]), sys.argv[5:]))
