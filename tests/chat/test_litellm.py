"""LiteLLM's proxy from PyPI as a real gateway before the server: the same labels."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from chat_server import ChatServer
from toy_chat import PRICES, label_of, messages, model_of, truth

PROXY = os.environ.get("EMSCO_LITELLM", "litellm")
CONFIG = """\
model_list:
  - model_name: toy
    litellm_params:
      model: openai/toy
      api_base: {url}
      api_key: sk-behind
      max_retries: 0
litellm_settings:
  num_retries: 0
  drop_params: true
  telemetry: false
"""
KEY = "sk-before-1234"


@contextmanager
def gateway(server, folder):
    """Start the proxy in front of a server; give its address."""
    found = shutil.which(PROXY)
    assert found, "install litellm[proxy] in an environment and set EMSCO_LITELLM to its command"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(url=server.base_url))
    environment = os.environ | {
        "LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "*",
        "PATH": f"{Path(found).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    with (folder / "proxy.log").open("wb") as log:
        command = [found, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        try:
            until = time.monotonic() + 240
            while True:
                try:
                    with urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5):
                        break
                except (URLError, OSError):
                    assert process.poll() is None, (folder / "proxy.log").read_text()[-2000:]
                    assert time.monotonic() < until, "the proxy does not answer"
                    time.sleep(0.5)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.nightly
def test_a_gateway_in_between_changes_no_answer(tmp_path, monkeypatch):
    """Nor the trust, nor what was charged; and its faults are faults."""
    monkeypatch.setenv("GATEWAY_KEY", KEY)
    with (
        ChatServer(label_of, trust=lambda _: 0.75, key="sk-behind").running() as server,
        gateway(server, tmp_path) as url,
    ):
        behind = model_of(server, tmp_path, base_url=url, api_key_env="GATEWAY_KEY",
                          logprobs=True, timeout=30.0, max_spend=1.0)  # fmt: skip
        found = behind.answers_with_trust(messages(40))
        assert found.labels == truth(40)
        assert found.trust == pytest.approx([0.75] * 40)
        assert behind.spending().known == pytest.approx(server.charged(**PRICES), abs=1e-10)
        assert len(server.bill) == 40
        assert all("response_format" in one["body"] for one in server.seen)
        server.share, server.faults = 0.3, ("429 with seconds", "500", "503", "no label",
                                            "refused", "cut off", "no choices")  # fmt: skip
        labels = behind.answers_with_trust(messages(120)).labels
        pairs = zip(labels, truth(120), strict=True)
        assert all(label in (None, right) for label, right in pairs)
        assert sum(label is None for label in labels) < 40
        spending = behind.spending()
        assert spending.known <= server.charged(**PRICES) <= sum(spending[:2])
