"""What every floor stands on: errors, time, ids, paths, processes and the seqpacket channel. Standard library only."""
