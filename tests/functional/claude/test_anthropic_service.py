"""The fake provider service does what its directives say: the tests with the real CLI stand on it."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVICE = Path(__file__).parents[2] / "fakes" / "anthropic_service.py"

Message = dict[str, object]
CAST = """Editor to Writer: Task {"topic": "tea [[stall:60:0]]"}
Write ONLY one JSON object.
{"label": "Draft", "payload": PAYLOAD}, PAYLOAD by schema {"properties": {"text": {"type": "string"}}, "type": "object"}
{"label": "Stop", "payload": PAYLOAD}, PAYLOAD by schema {"properties": {}, "type": "object"}"""


class Service:
    """The service in its own process."""

    def __init__(self, directory: Path) -> None:
        port = directory / "port"
        self.process = subprocess.Popen([sys.executable, SERVICE, "--port-file", port], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while not port.exists():
            assert time.monotonic() < end, "the service did not start"
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{port.read_text()}/v1/messages?beta=true"

    def post(self, *messages: Message, stream: bool = False) -> str:
        body = json.dumps({"model": "fake", "messages": messages, "stream": stream}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url, body), timeout=30) as response:
            return str(response.read().decode())

    def text(self, *messages: Message) -> str:
        return str(json.loads(self.post(*messages))["content"][0]["text"])


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.process.terminate()
    made.process.wait(10)


def user(text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def test_it_says_what_it_is_told_with_and_without_a_stream(service: Service) -> None:
    assert service.text(user("[[say:hello]]")) == "hello"
    assert service.text(user("anything")) == "ok"
    streamed = service.post(user("[[say:hello]]"), stream=True)
    assert '"text_delta", "text": "hello"' in streamed
    assert streamed.rstrip().endswith('{"type": "message_stop"}')


def test_only_the_newest_line_with_directives_counts(service: Service) -> None:
    assert service.text(user("[[fail:500]]"), user("[[say:new]]")) == "new"


def test_it_recalls_its_earlier_answers(service: Service) -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "green"}]}
    assert service.text(user("x"), answer, user("[[recall]]")) == "green"


@pytest.mark.parametrize(("choice", "label"), [("", "Draft"), ("\n[[label:Stop]]", "Stop")])
def test_it_plays_an_author_who_quotes_the_task_and_not_its_directives(
    service: Service, choice: str, label: str
) -> None:
    payload = {"text": 'Draft on "tea"'} if label == "Draft" else {}
    assert json.loads(service.text(user(CAST + choice))) == {"label": label, "payload": payload}


def test_it_fails_the_first_tries_only_if_told_a_number(service: Service) -> None:
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError, match="529") as caught:
            service.post(user("[[fail:529:2]]"))
        caught.value.close()
    assert service.text(user("[[fail:529:2]]")) == "ok"


def test_it_stalls_the_first_tries_only_if_told_a_number(service: Service) -> None:
    waits: list[float] = []
    for _ in range(2):
        began = time.monotonic()
        assert "message_stop" in service.post(user("[[stall:1:1]]"), stream=True)
        waits.append(time.monotonic() - began)
    assert waits[0] >= 1.0 > waits[1]


def test_an_author_remembers_the_task_when_the_newest_message_says_nothing(service: Service) -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "{}"}]}
    approval = CAST.replace('Task {"topic": "tea [[stall:60:0]]"}', "Approve {}")
    assert json.loads(service.text(user(CAST), answer, user(approval)))["payload"] == {"text": 'Draft on "tea"'}
