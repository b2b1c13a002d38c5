from pathlib import Path

from partyctl_confinement.control import Settings, command


def test_a_launcher_that_nothing_was_said_about_is_asked_for_nothing() -> None:
    line = command(Settings(), control_fd=5, host_pid=7)
    assert line[1:] == ["-P", "-m", "partyctl_confinement", "--control-fd", "5", "--host-pid", "7"]


def test_every_setting_is_an_option() -> None:
    settings = Settings(["a", "b"], Path("/run/x"), max_workers=64, forward_output=True)
    options = command(settings, control_fd=5, host_pid=7)[8:]
    assert options == ["--preload", "a,b", "--records", "/run/x", "--max-workers", "64", "--forward-output"]
