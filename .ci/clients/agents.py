"""Coding agents, each without a screen and against a scripted model, connected by what `switchboard install` writes."""

import json

from model import DONE, ScriptedModel

# The tools that each agent's model asks for, and what of the result must come back to the model.
CALLS = [
    ("echo", {"message": "a nonce, 7f3a"}, "a nonce, 7f3a"),
    ("get-sum", {"a": 19, "b": 23}, "42"),
    ("get-structured-content", {"location": "Chicago"}, "humidity"),
]

PROMPT = "Use the tools of the server."


class Agent:
    """`settings` are files to write before, `command` and `variables` how it is run; `{url}` is the model's address."""

    def __init__(self, name, program, command, variables, settings=None):
        self.name, self.program, self.command = name, program, command
        self.variables, self.settings = variables, settings or {}


AGENTS = [
    Agent(
        "claude-code", "claude",
        ["-p", PROMPT, "--dangerously-skip-permissions", "--output-format", "text"],
        {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "none", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1",
         "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    ),
    Agent(
        "codex", "codex",
        ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT],
        {"SCRIPTED_KEY": "none"},
        {".codex/config.toml": 'model = "scripted"\nmodel_provider = "scripted"\n\n[model_providers.scripted]\nname = "scripted"\n'
                               'base_url = "{url}/v1"\nenv_key = "SCRIPTED_KEY"\nwire_api = "responses"\n'},
    ),
    Agent(
        "gemini", "gemini",
        ["--prompt", PROMPT, "--yolo", "--skip-trust", "--model", "gemini-2.5-flash"],
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{url}"},
        {".gemini/settings.json": json.dumps({
            "security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True}, "telemetry": {"enabled": False},
        }, indent=2)},
    ),
    Agent(
        "opencode", "opencode",
        ["run", "--model", "scripted/model", PROMPT],
        # Else its first start waits a minute for a list of models and for plugins.
        {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
         "OPENCODE_MODELS_URL": "http://127.0.0.1:9", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1", "OPENCODE_PURE": "1"},
        {".config/opencode/opencode.json": json.dumps({
            "autoupdate": False, "share": "disabled",
            "provider": {"scripted": {
                "npm": "@ai-sdk/openai-compatible", "name": "scripted",
                "options": {"baseURL": "{url}/v1", "apiKey": "none"}, "models": {"model": {"name": "model"}},
            }},
        }, indent=2)},
    ),
    Agent(
        "goose", "goose",
        ["run", "--no-session", "--text", PROMPT],
        {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "gpt-4o", "OPENAI_HOST": "{url}", "OPENAI_API_KEY": "none", "GOOSE_MODE": "auto",
         "GOOSE_DISABLE_KEYRING": "1", "GOOSE_TELEMETRY_ENABLED": "false"},
    ),
]


def check(agent, program, home, way):
    """Installs our entry, runs the agent once, and compares what server, gateway and model saw."""
    model = ScriptedModel([(ending, arguments) for ending, arguments, _ in CALLS])
    try:
        settings = {path: text.replace("{url}", model.url) for path, text in agent.settings.items()}
        for path, text in settings.items():
            home.write(path, text)
        form = ["--http", "--url", home.url] if way == "http" else []
        home.switchboard("install", agent.name, "--yes", *form)
        variables = {name: value.replace("{url}", model.url) for name, value in agent.variables.items()}
        if way == "http":
            variables[f"SWITCHBOARD_TOKEN_{agent.name.replace('-', '_').upper()}"] = home.token(agent.name)
        before = len(home.audit(agent.name))
        said = home.run([program, *agent.command], **variables)
        expected = [(tool, "answered") for tool, _, _ in CALLS]
        # Lines are written a moment after the response.
        home.wait_for(lambda: len(home.audit(agent.name)) >= before + len(model.results), "the audit log")
        calls = home.audit(agent.name)[before:]
        assert calls == expected, f"{calls}; offered: {sorted(model.offered)}; {said[-2000:]}"
        for (_, _, part), result in zip(CALLS, model.results, strict=True):
            assert part in json.dumps(result), f"{part} is not in what the model got: {result}"
        assert DONE in said, f"the end of the script was not printed: {said[-2000:]}"
    finally:
        model.close()
