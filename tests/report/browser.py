"""A headless Chromium, driven through chromedriver's HTTP interface (W3C WebDriver and its CDP extension)."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def missing() -> str | None:
    """Why no browser test can run here, or None."""
    for names in (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)):
        if not any(shutil.which(name) for name in names):
            return f"needs {' or '.join(names)} on PATH (apt-get install chromium chromium-driver)"
    return None


class Browser:
    """One browser window with a profile of its own; `run` evaluates JavaScript in the page."""

    def __enter__(self) -> Browser:
        self._profile = tempfile.TemporaryDirectory(prefix="selfgen-chromium-")
        binary = next(
            found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))
        )
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._driver.stdout is not None
        port = next(
            line.rsplit(" ", 1)[1].strip(" .\n")
            for line in self._driver.stdout
            if "started successfully on port" in line
        )
        self._base = f"http://127.0.0.1:{port}"
        options = {"binary": binary, "args": [*FLAGS, f"--user-data-dir={self._profile.name}"]}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._post("/session", {"capabilities": {"alwaysMatch": capabilities}})["sessionId"]
        self._base += f"/session/{session}"
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._request("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(10)
            self._profile.cleanup()

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load a local file in a window of this size and colour scheme."""
        self.cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", features=[scheme])
        self._post("/url", {"url": path.resolve().as_uri()})

    def run(self, script: str) -> Any:
        return self._post("/execute/sync", {"script": script, "args": []})

    def console(self) -> list[str]:
        """Messages of level warning and above since the last call."""
        entries = self._post("/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]

    def screenshot(self, path: Path, *, height: int | None = None) -> None:
        """The whole page, not only the window, or its first `height` pixels."""
        width = self.run("return document.documentElement.clientWidth")
        clip = {} if height is None else {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        shot = self.cdp("Page.captureScreenshot", captureBeyondViewport=True, **clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def cdp(self, command: str, **params: Any) -> Any:
        return self._post("/goog/cdp/execute", {"cmd": command, "params": params})

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._request("POST", path, body)

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        for attempt in range(3):
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:
                    return json.load(answer)["value"]
            except ConnectionError:
                if attempt == 2:
                    raise
                time.sleep(0.5)
        return None
