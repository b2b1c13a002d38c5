"""A module that takes its time to import."""

import time

from partyctl_base.channel import Channel

time.sleep(30)


def main(channel: Channel) -> int:
    return 0
