"""A client made with the Python SDK: lists, calls what it is told to, and prints what it saw as one line of JSON.

    python sdk.py '{"command": …, "args": …} | {"url": …, "token": …}' '[["TOOL", {ARGUMENTS}], …]'
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client


async def main(target, calls):
    saw = {"elicited": [], "sampled": 0, "progress": 0, "results": {}}

    async def elicit(_context, params):
        saw["elicited"].append(params.message)
        return types.ElicitResult(action="decline")

    async def sample(_context, _params):
        saw["sampled"] += 1
        return types.CreateMessageResult(model="scripted", role="assistant", content=types.TextContent(type="text", text="sampled"))

    async def roots(_context):
        return types.ListRootsResult(roots=[types.Root(uri="file:///tmp", name="tmp")])

    async def progress(*_):
        saw["progress"] += 1

    if "url" in target:
        headers = {"Authorization": f"Bearer {target['token']}"}
        http = httpx2.AsyncClient(headers=headers, timeout=60)
        server = streamable_http_client(target["url"], http_client=http)
    else:
        server = StdioServerParameters(command=target["command"], args=target["args"], env=dict(os.environ))
    client = Client(server, elicitation_callback=elicit, sampling_callback=sample, list_roots_callback=roots)

    def plain(value):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)

    async with client:
        saw["tools"] = {tool.name: plain(tool) for tool in (await client.list_tools()).tools}
        for name, arguments in calls:
            saw["results"][name] = plain(await client.call_tool(name, arguments, progress_callback=progress))
        # A call that is cancelled ends at once for its client, and the next one is answered.
        has_begun = asyncio.Event()

        async def begun(*_):
            has_begun.set()

        long = asyncio.create_task(
            client.call_tool("trigger-long-running-operation", {"duration": 60, "steps": 60}, progress_callback=begun)
        )
        await has_begun.wait()
        long.cancel()
        await asyncio.wait([long])
        saw["cancelled"] = long.cancelled()
        saw["results"]["echo"] = plain(await client.call_tool("echo", {"message": "after the cancelled call"}))
    print(json.dumps(saw))


asyncio.run(main(json.loads(sys.argv[1]), json.loads(sys.argv[2])))
