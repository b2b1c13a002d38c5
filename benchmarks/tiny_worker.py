"""The smallest worker: what `worker_spawn.py` measures when no other main is named."""

from partyctl_base.channel import Channel


def main(channel: Channel) -> int:
    """Say that it is ready and wait for its end."""
    channel.send(b"ready")
    channel.receive()
    return 0
