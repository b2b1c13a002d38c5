"""The yardstick of a supervised turn: a SOCK_SEQPACKET pair to a forked process that echoes and does nothing else."""

import os
import socket


def echo_pair() -> socket.socket:
    """One end; the process ends when it is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        return ours
    ours.close()
    while data := theirs.recv(65536):
        theirs.send(data)
    os._exit(0)
