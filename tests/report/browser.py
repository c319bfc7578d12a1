"""A headless Chromium, driven over its DevTools protocol: what a person sees, clicks and types."""

import base64
import itertools
import json
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "ArrowUp": 38, "Tab": 9, "Enter": 13, " ": 32}


def find_chromium() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """Use as a context manager: the process ends with it."""

    def __init__(self, path: str) -> None:
        from websockets.sync.client import connect

        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"]
        self._process = subprocess.Popen(
            [path, *options, f"--user-data-dir={self._folder.name}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        lines = itertools.takewhile(lambda line: line != "", iter(self._process.stderr.readline, ""))
        address = next(found[0] for line in lines if (found := re.search(r"ws://\S+", line)))
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(address, max_size=None))
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()
        self._process.terminate()
        self._process.wait(timeout=20)
        self._folder.cleanup()

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        self._socket.send(json.dumps(message if session is None else {**message, "sessionId": session}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> "Page":
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, path, width=width, height=height, dark=dark)


class Page:
    def __init__(self, browser: Browser, session: str, path: Path, *, width: int, height: int, dark: bool) -> None:
        self._browser, self._session = browser, session
        self.path = path
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("document.documentElement?.dataset.ready === 'yes'")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def js(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition: str, seconds: float = 20) -> None:
        until = time.monotonic() + seconds
        while not self.js(condition):
            assert time.monotonic() < until, f"{condition}: not after {seconds} s; {self.complaints}"
            time.sleep(0.02)

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings on the console, exceptions, and whatever was asked of the network."""
        self.js("0")  # let those on their way arrive
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(params["args"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent" and params["request"]["url"] != self.path.as_uri():
                found.append(f"asked for {params['request']['url']}")
        return found

    def box(self, selector: str) -> dict[str, float]:
        found = self.js(
            f"""(() => {{ const it = document.querySelector({json.dumps(selector)});
            it.scrollIntoView({{ block: "center", behavior: "instant" }});
            const {{ x, y, width, height }} = it.getBoundingClientRect(); return {{ x, y, width, height }}; }})()"""
        )
        assert found["width"] > 0
        assert found["height"] > 0, f"{selector} has no size"
        return found

    def mouse(self, kind: str, x: float, y: float, *, count: int = 1) -> None:
        held = 0 if kind == "mouseMoved" and count == 0 else 1
        button = "left" if held else "none"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=held, clickCount=count)

    def click(self, selector: str) -> None:
        box = self.box(selector)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def hover(self, selector: str, across: float, down: float = 0.5) -> None:
        box = self.box(selector)
        self.mouse("mouseMoved", box["x"] + across * box["width"], box["y"] + down * box["height"], count=0)

    def drag(self, selector: str, start: float, end: float) -> None:
        box = self.box(selector)
        y = box["y"] + box["height"] / 2
        self.mouse("mousePressed", box["x"] + start * box["width"], y)
        self.mouse("mouseMoved", box["x"] + (start + end) / 2 * box["width"], y)
        self.mouse("mouseMoved", box["x"] + end * box["width"], y)
        self.mouse("mouseReleased", box["x"] + end * box["width"], y)

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        code = KEYS.get(key, ord(key[0]))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path) -> bytes:
        """The whole page, however long."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(picture))
        return path.read_bytes()
