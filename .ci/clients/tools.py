"""SDKs, Inspector and mcporter: the same calls on `server-everything` directly and through the gateway, compared."""

import json
import os
import re
import subprocess
import threading

import gateway

HERE = os.path.dirname(os.path.abspath(__file__))

# Left out: get-env shows the environment, the toggles name their session, simulate-research-query is a task, and URL elicitation
# is not declared by these clients.
CALLS = [
    ("echo", {"message": "hi"}),
    ("get-sum", {"a": 1, "b": 2}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-tiny-image", {}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-resource-links", {"count": 2}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
    ("gzip-file-as-resource", {"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource"}),
    ("trigger-long-running-operation", {"duration": 1, "steps": 4}),
    ("trigger-sampling-request", {"prompt": "hi", "maxTokens": 10}),
    ("trigger-elicitation-request", {}),
]

# Offered by the server only to clients that take tasks or URL elicitation, which the gateway does for clients that do not.
CONDITIONAL = {"simulate-research-query", "trigger-url-elicitation", "trigger-elicitation-request-async", "trigger-sampling-request-async"}


def targets(home, client):
    """The server itself, and both ways to it through the gateway, as the client of this name."""
    return {
        "direct": home.server,
        "attach": {"command": home.at("bin/switchboard"), "args": ["attach", "--as", client]},
        "http": {"url": home.url, "token": home.token(client)},
    }


def sdk(home, command, name):
    """Runs one of the programs made with an SDK for each target, and compares."""
    calls = json.dumps(CALLS)
    saw = {}
    for way in ("direct", "attach", "http"):
        client = f"{name}-{way}"
        target = targets(home, client)[way]
        saw[way] = json.loads(home.run([*command, json.dumps(target), calls]).splitlines()[-1])
        if way != "direct":
            cancelled = ("trigger-long-running-operation", "cancelled")
            home.wait_for(lambda: cancelled in home.audit(client), f"{way}: the gateway cancels the call")
    for way in ("attach", "http"):
        compare(saw["direct"], saw[way], way)
        for number in ("elicited", "sampled", "cancelled"):
            assert saw[way][number] == saw["direct"][number], f"{way}: {number}: {saw[way][number]}"
        assert saw[way]["cancelled"], f"{way}: the call was not cancelled"
        # The TypeScript SDK v1 loses the last of four, also directly, if it reads it together with the response.
        assert saw[way]["progress"] >= 3, f"{way}: progress {saw[way]['progress']}"


def list_changes(home, command, name):
    """A server that `switchboard reload` adds and removes is announced to a client, which lists the tools again."""
    config = ".config/switchboard/switchboard.toml"
    before = home.read(config)
    command_line = f"command = {json.dumps(home.server['command'])}\nargs = {json.dumps(home.server['args'])}\n"
    with_second = f"{before}\n[servers.second]\n{command_line}"
    for way, target in targets(home, name).items():
        if way == "direct":
            continue
        client = subprocess.Popen([*command, json.dumps(target), "watch"], cwd=home.project, env=home.environment,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        watchdog = threading.Timer(gateway.PATIENCE_SECONDS, client.kill)
        watchdog.start()

        def has_second():
            line = client.stdout.readline()
            assert line, f"{way}: the client ended, or a change was not announced"
            return any(name.startswith("mcp__second__") for name in json.loads(line))

        try:
            assert not has_second(), way
            for text, expected in ((with_second, True), (before, False)):
                home.write(config, text)
                home.switchboard("reload")
                while has_second() != expected:
                    pass
        finally:
            watchdog.cancel()
            client.kill()
            client.wait()


def compare(direct, through, way):
    names = set(direct["tools"]) - CONDITIONAL
    assert names == set(through["tools"]) - CONDITIONAL, f"{way}: {sorted(names ^ set(through['tools']))}"
    for name in names:
        listed = [without_execution(saw["tools"][name]) for saw in (direct, through)]
        assert listed[0] == listed[1], f"{way}: {name}: {listed}"
    for name in direct["results"]:
        results = [without_times(without_result_type(saw["results"][name])) for saw in (direct, through)]
        assert results[0] == results[1], f"{way}: {name}: {results}"


def without_result_type(result):
    """The modern era says that a result is complete; of the SDKs, rmcp alone shows it."""
    assert result.get("resultType", "complete") == "complete", result
    return {key: value for key, value in result.items() if key != "resultType"}


def without_execution(tool):
    """The server speaks the legacy era alone, whose `execution` the modern era does not have."""
    return {key: value for key, value in tool.items() if key != "execution"}


def without_times(value):
    """Resources tell when they were made."""
    text = json.dumps(value, sort_keys=True)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\d+:\d+:\d+ [AP]M", "TIME", text)


def inspector(home, program):
    """Inspector without its page, configured by a file."""
    servers = {}
    for way, target in targets(home, "inspector").items():
        if way == "http":
            servers[way] = {"type": "streamable-http", "url": target["url"], "headers": {"Authorization": f"Bearer {target['token']}"}}
        else:
            servers[way] = {"type": "stdio", "command": target["command"], "args": target["args"]}
    home.write("inspector.json", json.dumps({"mcpServers": servers}))

    def run(way, *words):
        text = home.run([program, "--cli", "--config", home.at("inspector.json"), "--server", way, *words])
        return json.loads(text[text.index("{"):])

    saw = {}
    for way in servers:
        listed = run(way, "--method", "tools/list")
        call = run(way, "--method", "tools/call", "--tool-name", "get-sum", "--tool-arg", "a=1", "b=2")
        saw[way] = {"tools": {tool["name"]: tool for tool in listed["tools"]}, "results": {"get-sum": call}}
    for way in ("attach", "http"):
        compare_some(saw["direct"], saw[way], way)


def mcporter(home, program):
    """mcporter, configured by a file."""
    servers = {}
    for way, target in targets(home, "mcporter").items():
        if way == "http":
            servers[way] = {"baseUrl": target["url"], "headers": {"Authorization": f"Bearer {target['token']}"}}
        else:
            servers[way] = {"command": target["command"], "args": target["args"]}
    home.write("mcporter.json", json.dumps({"mcpServers": servers, "imports": []}))
    saw = {}
    for way in servers:
        base = [program, "--config", home.at("mcporter.json")]
        listed = json.loads(home.run([*base, "list", way, "--json"]))
        call = home.run([*base, "call", f"{way}.get-sum", "a=1", "b=2"])
        saw[way] = {"tools": {tool["name"]: tool for tool in listed["tools"]}, "results": {"get-sum": call}}
    for way in ("attach", "http"):
        compare_some(saw["direct"], saw[way], way)


def compare_some(direct, through, way):
    """For clients that declare little: the server offers them fewer tools than the gateway's own session."""
    missing = set(direct["tools"]) - set(through["tools"])
    assert not missing - CONDITIONAL, f"{way}: {sorted(missing)}"
    for name, result in direct["results"].items():
        assert result == through["results"][name], f"{way}: {name}: {result} {through['results'][name]}"
