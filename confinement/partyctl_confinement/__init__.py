"""Starts workers, reports their deaths and leaves none behind.

`launcher` runs as a process of its own (`python -m partyctl_confinement`) and forks workers; `control` is its host's
end, `client` the end of whoever hires workers. `reaper` kills whole process trees and serves launcher and host alike.
"""
