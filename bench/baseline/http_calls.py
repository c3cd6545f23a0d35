"""Calls the demo server's echo tool through the official Python SDK, on order:  python http_calls.py URL legacy|modern

Reads orders from stdin, `one N` or `many WIDTH N`, and answers each with one number: the median of N calls made one after the other in
seconds, or calls per second. Says `ready` once its session is open. Ends with its input.
"""

import asyncio
import statistics
import sys
import time

from mcp.client import Client


async def main(url, era):
    mode = "2026-07-28" if era == "modern" else "legacy"
    async with Client(url, mode=mode) as session:
        await session.list_tools()
        print("ready", flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).split():
            order, numbers = line[0], [int(number) for number in line[1:]]
            print(await (one if order == "one" else many)(session, *numbers), flush=True)


async def call(session):
    result = await session.call_tool("echo", {"message": "thirty-two characters of a text."})
    if len(result.content[0].text) < 32:
        raise RuntimeError(f"an answer without its text: {result!r}")


async def one(session, calls):
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        await call(session)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


async def many(session, width, calls):
    share = -(-calls // width)

    async def worker():
        for _ in range(share):
            await call(session)

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(width)))
    return share * width / (time.perf_counter() - start)


asyncio.run(main(*sys.argv[1:]))
