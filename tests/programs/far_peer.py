"""A peer beyond this machine, as far as it knows: it has what `partyctl key add --json` printed, and nothing else.

    python far_peer.py FILE ADDRESS

It claims ADDRESS, answers every letter with the same in capitals, and prints what happens to it, a word a line: open,
lost (the broker is gone for now), over (for good), or the name of the error that it got.
"""

import asyncio
import json
import sys
from pathlib import Path

from partyctl_broker.errors import BusError
from partyctl_broker.keys import decode_z85
from partyctl_broker.peer import ZmqBus


def say(word):
    print(word, flush=True)


class Answers:
    def __init__(self):
        self.mailbox = None
        self.over = asyncio.Event()

    def letter(self, letter):
        self.mailbox.send(letter.source, letter.payload.upper())

    def undelivered(self, letter_id, destination, why):
        pass

    def gone(self, address, unknown, why):
        if not self.mailbox or address == self.mailbox.address:
            self.over.set()

    def link_lost(self, why):
        say("lost")


async def main(file, address):
    given = json.loads(Path(file).read_text())
    answers = Answers()
    try:
        bus = await ZmqBus.connect(given["endpoint"], given["principal"], decode_z85(given["secret"]))
        try:
            answers.mailbox = await bus.open(address, answers)
            say("open")
            await answers.over.wait()
            say("over")
        finally:
            await bus.close()
    except BusError as error:
        say(type(error).__name__)


asyncio.run(main(*sys.argv[1:]))
