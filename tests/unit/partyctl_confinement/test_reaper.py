import signal

from partyctl_confinement.reaper import kill_tree


class FakeProcesses:
    """A process table in which a process may fork whenever somebody looks at it, until it is stopped."""

    def __init__(self, parents: dict[int, int]) -> None:
        self.parents = dict(parents)
        self.started = {pid: pid * 10 for pid in parents}
        self.stopped: set[int] = set()
        self.killed: list[int] = []
        self.forking: set[int] = set()
        self.unwilling: set[int] = set()
        self.next_pid = 1000

    def fork(self, parent: int) -> int:
        self.next_pid += 1
        self.parents[self.next_pid] = parent
        self.started[self.next_pid] = self.next_pid * 10
        return self.next_pid

    def die(self, pid: int, heir: int) -> None:
        """The process ends; its children go to the heir."""
        del self.parents[pid]
        self.parents = {child: heir if parent == pid else parent for child, parent in self.parents.items()}

    def children(self, pid: int) -> list[int]:
        seen = [child for child, parent in self.parents.items() if parent == pid]
        for runner in self.forking - self.stopped:
            self.fork(runner)
        return seen

    def signal(self, pid: int, number: int, *, parent: int | None = None, started: int | None = None) -> int | None:
        if pid not in self.parents or pid in self.unwilling:
            return None
        if parent not in (None, self.parents[pid]) or started not in (None, self.started[pid]):
            return None
        if number == signal.SIGSTOP:
            self.stopped.add(pid)
        if number == signal.SIGKILL:
            self.killed.append(pid)
        return self.started[pid]


TREE = {2: 1, 3: 2, 4: 2, 5: 4, 6: 5, 90: 1, 91: 90}


def test_the_whole_tree_is_killed_and_nobody_else() -> None:
    table = FakeProcesses(TREE)
    assert set(kill_tree(2, processes=table)) == {2, 3, 4, 5, 6}
    assert set(table.killed) == {2, 3, 4, 5, 6}


def test_everybody_is_stopped_before_anybody_is_killed() -> None:
    class Ordered(FakeProcesses):
        def signal(self, pid, number, *, parent=None, started=None):
            if number == signal.SIGKILL:
                assert self.stopped == {2, 3, 4, 5, 6}
            return super().signal(pid, number, parent=parent, started=started)

    assert len(kill_tree(2, processes=Ordered(TREE))) == 5


def test_children_born_during_the_walk_are_found() -> None:
    table = FakeProcesses(TREE)
    table.forking = {3, 6}
    kill_tree(2, processes=table)
    below = {pid for pid in table.parents if pid not in (90, 91)}
    assert set(table.killed) == below
    assert len(below) > 5


def test_an_orphan_that_moved_to_the_root_is_found() -> None:
    class Moving(FakeProcesses):
        def children(self, pid):
            seen = super().children(pid)
            if pid == 4 and 4 in self.parents:
                self.die(4, heir=2)
            return seen

    table = Moving(TREE)
    kill_tree(2, processes=table)
    assert set(table.killed) == {2, 3, 5, 6}


def test_a_pid_that_went_to_somebody_else_meanwhile_is_not_touched() -> None:
    class Reusing(FakeProcesses):
        def children(self, pid):
            seen = super().children(pid)
            if 3 in seen:
                self.parents[3] = 90
            return seen

    table = Reusing(TREE)
    kill_tree(2, processes=table)
    assert 3 not in table.stopped
    assert 3 not in table.killed


def test_a_process_that_was_replaced_between_stop_and_kill_is_not_killed() -> None:
    class Replacing(FakeProcesses):
        def signal(self, pid, number, *, parent=None, started=None):
            if number == signal.SIGKILL:
                self.started[6] = 7
            return super().signal(pid, number, parent=parent, started=started)

    table = Replacing(TREE)
    kill_tree(2, processes=table)
    assert set(table.killed) == {2, 3, 4, 5}


def test_a_root_of_another_parent_or_start_time_is_left_alone() -> None:
    table = FakeProcesses(TREE)
    assert kill_tree(2, parent=7, processes=table) == ()
    assert kill_tree(2, started=7, processes=table) == ()
    assert kill_tree(99, processes=table) == ()
    assert (table.stopped, table.killed) == (set(), [])
    assert len(kill_tree(2, parent=1, started=20, processes=table)) == 5


def test_a_process_that_may_not_be_signalled_does_not_hold_up_the_rest() -> None:
    table = FakeProcesses(TREE)
    table.unwilling = {4}
    table.forking = {4}
    assert set(kill_tree(2, processes=table)) == {2, 3}


def test_in_a_hurry_only_those_are_killed_who_are_stopped_already() -> None:
    table = FakeProcesses(TREE)
    answers = iter([False, False, True])
    killed = kill_tree(2, processes=table, hurry=lambda: next(answers))
    assert set(killed) == table.stopped
    assert 2 in killed
    assert len(killed) < 5


def test_a_very_deep_tree_is_no_trouble() -> None:
    table = FakeProcesses({pid: pid - 1 for pid in range(2, 1500)})
    assert len(kill_tree(2, processes=table)) == 1498
