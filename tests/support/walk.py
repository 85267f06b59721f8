"""A browser that can be led through pages: Chromium by its own protocol, with a user name and a password."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1600,1100 --remote-debugging-port=0"
)


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, user: str, password: str) -> None:
        self._socket, self._credentials = socket, {"username": user, "password": password}
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._tried: set[str] = set()
        self.asked_to_log_in = 0
        self.failures: list[str] = []

    async def listen(self) -> None:
        """Take answers, and log in when the server asks for it."""
        async for message in self._socket:
            event = json.loads(message.data)
            about = event.get("params", {})
            if "id" in event and (answer := self._answers.pop(event["id"], None)) is not None:
                if not answer.done():
                    answer.set_result(event.get("result", {}))
            elif event.get("method") == "Fetch.requestPaused":
                await self._send("Fetch.continueRequest", requestId=about["requestId"])
            elif event.get("method") == "Fetch.authRequired":
                self.asked_to_log_in += 1
                login = {"response": "ProvideCredentials", **self._credentials}
                if about["requestId"] in self._tried:  # refused: as if the reader gave up
                    login = {"response": "CancelAuth"}
                self._tried.add(about["requestId"])
                await self._send("Fetch.continueWithAuth", requestId=about["requestId"], authChallengeResponse=login)
            elif event.get("method") == "Runtime.exceptionThrown":
                self.failures.append(json.dumps(about)[:300])

    async def _send(self, method: str, session: str = "", **parameters: Any) -> int:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        return self._number

    async def call(self, method: str, session: str = "", **parameters: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[self._number + 1] = answer
        await self._send(method, session, **parameters)
        return await asyncio.wait_for(answer, 120)

    async def run(self, script: str, session: str = "") -> Any:
        """The value of a script in the page, or in what a session is attached to."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        found = await self.call("Runtime.evaluate", session, **asked)
        return found.get("result", {}).get("value")

    async def in_frames(self, script: str) -> list[Any]:
        """The values of a script in the frames that are sandboxed: the page itself cannot look into these."""
        values = []
        for target in (await self.call("Target.getTargets"))["targetInfos"]:
            if target["type"] == "iframe":
                found = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
                if session := found.get("sessionId"):  # else it has just gone
                    values.append(await self.run(script, session))
                    await self.call("Target.detachFromTarget", sessionId=session)
        return values

    async def open(self, url: str, *expected: str, patience: float = 120) -> str:
        """Go to an address; returns its text once all that is expected stands in it."""
        await self.call("Page.navigate", url=url)
        return await self.wait(*expected, patience=patience)

    async def wait(self, *expected: str, patience: float = 120) -> str:
        deadline = time.monotonic() + patience
        while True:
            text = str(await self.run("document.body ? document.body.innerText : ''") or "")
            missing = [part for part in expected if part not in text]
            if not missing:
                return text
            assert time.monotonic() < deadline, f"{missing} is not in the page:\n{text[:3000]}"
            await asyncio.sleep(0.5)

    async def wait_in_frame(self, *expected: str, patience: float = 120) -> None:
        """Wait until all that is expected stands in one of the sandboxed frames."""
        deadline = time.monotonic() + patience
        while True:
            texts = [str(text or "") for text in await self.in_frames("document.body ? document.body.innerText : ''")]
            if any(all(part in text for part in expected) for text in texts):
                return
            assert time.monotonic() < deadline, f"{expected} is in no frame: {[text[:1000] for text in texts]}"
            await asyncio.sleep(0.5)

    async def until(self, script: str, expected: set[str], patience: float = 120) -> None:
        """Wait until a script that gives a list has all that is expected in it."""
        deadline = time.monotonic() + patience
        while not expected <= set(found := await self.run(script) or []):
            assert time.monotonic() < deadline, f"{expected} is not in {found}"
            await asyncio.sleep(0.5)

    async def picture(self, path: Path) -> None:
        await asyncio.sleep(1.5)  # what moves comes to rest
        found = await self.call("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(found["data"]))


@contextlib.asynccontextmanager
async def browser(folder: Path, user: str, password: str) -> AsyncIterator[Page]:
    """Chromium with an empty page."""
    profile = folder / "profile"
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["chromium", *OPTIONS.split(), f"--user-data-dir={profile}", "about:blank"], stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + 60
        while not (profile / "DevToolsActivePort").exists():
            assert process.poll() is None and time.monotonic() < deadline, (folder / "chromium.log").read_text()[-2000:]
            await asyncio.sleep(0.2)
        port = (profile / "DevToolsActivePort").read_text().split()[0]
        async with aiohttp.ClientSession() as session:
            async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as response:
                address = (await response.json())["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                page = Page(socket, user, password)
                listener = asyncio.create_task(page.listen())
                await page.call("Page.enable")
                await page.call("Runtime.enable")
                await page.call("Fetch.enable", handleAuthRequests=True)
                yield page
                listener.cancel()
    finally:
        process.terminate()
        process.wait(timeout=30)
