"""What the Python clients' tests share."""

import json
import os
import time
import urllib.request
from pathlib import Path

CASES = json.loads(Path(__file__).with_name("cases.json").read_text())
SERVER = os.environ["SERVER_URL"]
KEY = os.environ["SERVER_KEY"]
BASE_URL = f"{SERVER}/v1"
TOOLS = [{"type": "function", "function": CASES["tool"]}]


def user(text):
    return [{"role": "user", "content": text}]


def _look(path):
    with urllib.request.urlopen(SERVER + path) as response:
        return json.load(response)


class cuts_off:
    """A block that aborts an answer; ends when the server has seen one more answer cut off and works on none."""

    def __enter__(self):
        self.before = _look("/aborted")

    def __exit__(self, kind, *_):
        while kind is None and (_look("/aborted") <= self.before or _look("/health")["active"] > 0):
            time.sleep(0.02)
