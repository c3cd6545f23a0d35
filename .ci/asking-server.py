"""A server of both eras whose tools ask: two with requests of their own (the older way), one in its result (the newer way).

    asking-server.py sdk|fastmcp [http PORT [stateless]]
"""

import sys

import mcp_types as types
from pydantic import BaseModel

library, *words = sys.argv[1:]
if library == "sdk":
    from mcp.server.mcpserver import Context, MCPServer as Server
else:
    from fastmcp import Context, FastMCP as Server

server = Server("asks")


class Person(BaseModel):
    name: str


@server.tool()
async def elicit(ctx: Context) -> str:
    """Asks with a request."""
    form = {"schema": Person} if library == "sdk" else {"response_type": Person}
    answer = await ctx.elicit("What is your name?", **form)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


@server.tool()
async def sample(ctx: Context) -> str:
    """Asks a model with a request."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="how are you?"))
    answer = await ctx.session.create_message(messages=[message], max_tokens=50)
    return f"{answer.model} said: {answer.content.text}"


@server.tool()
async def newer(ctx: Context) -> types.InputRequiredResult | str:
    """Asks in its result."""
    if ctx.input_responses:
        return f"answered: {ctx.input_responses['name'].content}"
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    form = types.ElicitRequestFormParams(mode="form", message="What is your name?", requested_schema=schema)
    return types.InputRequiredResult(input_requests={"name": types.ElicitRequest(method="elicitation/create", params=form)})


banner = {} if library == "sdk" else {"show_banner": False}
if words:
    transport = "streamable-http" if library == "sdk" else "http"
    kind = {"stateless_http": True} if words[2:] == ["stateless"] else {}
    server.run(transport, host="127.0.0.1", port=int(words[1]), **kind, **banner)
else:
    server.run("stdio", **banner)
