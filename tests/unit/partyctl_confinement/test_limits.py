import resource

import pytest

from partyctl_confinement import limits
from partyctl_confinement.limits import MIB, Machine

ROOMY = Machine(dict.fromkeys(limits.KINDS, -1), holds_nproc=True, address_space=30 * MIB)


@pytest.mark.parametrize("name", limits.KINDS)
def test_every_limit_can_be_asked_for(name) -> None:
    asked = {name: 100 * MIB}
    assert limits.fault(asked) == ""
    assert limits.impossible(asked, ROOMY, fork=True) == ""


def test_an_unknown_limit_is_named_with_the_nearest_one() -> None:
    assert "'file_size'; file_size_max" in limits.fault({"core": 0, "file_size": 1})
    assert "'zzz'; the limits are" in limits.fault({"zzz": 1})


def test_what_the_machine_itself_does_not_allow_is_refused_by_name() -> None:
    machine = Machine({**ROOMY.hard, "nofile": 100, "cpu_seconds": 10}, holds_nproc=True, address_space=0)
    assert "nofile = 101" in limits.impossible({"nofile": 101}, machine, fork=True)
    assert limits.impossible({"nofile": 100, "cpu_seconds": 8}, machine, fork=True) == ""
    assert "cpu_seconds = 9" in limits.impossible({"cpu_seconds": 9}, machine, fork=True)


def test_nproc_is_refused_where_the_kernel_does_not_enforce_it() -> None:
    machine = Machine(ROOMY.hard, holds_nproc=False, address_space=0)
    assert "nproc is not enforced" in limits.impossible({"nproc": 10}, machine, fork=True)


def test_an_address_space_that_a_fork_of_the_launcher_exceeds_is_refused_and_a_fresh_program_may_have_it() -> None:
    assert "address_space = 31 MiB" in limits.impossible({"address_space": 31 * MIB}, ROOMY, fork=True)
    assert limits.impossible({"address_space": 31 * MIB}, ROOMY, fork=False) == ""


def test_no_core_file_is_written_unless_asked_for() -> None:
    assert limits.effective({}) == {"core": 0}
    assert limits.effective({"core": 5, "nofile": 9}) == {"core": 5, "nofile": 9}


def test_the_machine_is_read_from_this_process() -> None:
    machine = Machine.of_this_process()
    assert machine.hard["nofile"] == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert machine.address_space > MIB
