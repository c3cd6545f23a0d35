"""A new user's first steps: a project with a `.mcp.json`, one call approved in the client, one approved by an operator."""

import json
import threading

from agents import AGENTS
from model import ScriptedModel

# What a person does in the client's form; without a person, Claude Code declines unless a hook answers.
ANSWER = json.dumps({"hookSpecificOutput": {"hookEventName": "Elicitation", "action": "accept", "content": {"decision": "allow once"}}})


def check(home, claude, gemini):
    """`home` has a `.mcp.json` alone, and no rule."""
    home.switchboard("install", "claude-code", "gemini", "--yes")
    home.write(".claude/settings.json", json.dumps({
        # Claude Code reads the project's file itself, and would reach the server without the gateway.
        "disabledMcpjsonServers": ["everything"],
        "hooks": {"Elicitation": [{"hooks": [{"type": "command", "command": f"cat >{home.at('question.json')}; echo '{ANSWER}'"}]}]},
    }))
    result = call(home, "claude-code", claude, "approved in the client")
    question = json.loads(home.read("question.json"))["message"]
    assert "everything/echo" in question and "approved in the client" in question, question
    assert "approved in the client" in result, result

    # Gemini CLI cannot be asked: the call waits for an operator.
    results = []
    thread = threading.Thread(target=lambda: results.append(call(home, "gemini", gemini, "approved by an operator")))
    thread.start()
    waiting = home.wait_for(lambda: json.loads(home.switchboard("--json", "approvals"))["waiting"], "a call that waits")
    home.switchboard("approvals", "allow", str(waiting[0]["id"]))
    thread.join()
    assert results and "approved by an operator" in results[0], results
    for client in ("claude-code", "gemini"):
        calls = home.wait_for(lambda client=client: home.audit(client), "the audit log")
        assert calls == [("echo", "answered")], f"{client}: {calls}"


def call(home, name, program, message):
    """One call of `echo` by an agent; returns what its model got."""
    agent = next(agent for agent in AGENTS if agent.name == name)
    model = ScriptedModel([("echo", {"message": message})])
    try:
        # Its entry is installed already: only settings that have none are written.
        if name == "gemini":
            settings = json.loads(agent.settings[".gemini/settings.json"])
            home.write(".gemini/settings.json", json.dumps({**settings, **json.loads(home.read(".gemini/settings.json"))}))
        home.run([program, *agent.command], **{key: value.replace("{url}", model.url) for key, value in agent.variables.items()})
        direct = [tool for tool in model.offered if "everything" in tool and "switchboard" not in tool]
        assert not direct, f"{name} reaches the server without the gateway: {direct}"
        return json.dumps(model.results)
    finally:
        model.close()
