"""docs/projection.md has every rule by which a protocol is refused, in the words of its error."""

from support.documents import Document

from partyctl_actors.protocol import witness

PAGE = Document("docs/projection.md")


def test_the_rules_are_those_that_a_refusal_names() -> None:
    assert [row[0] for row in PAGE.rows("The rules")[2:]] == [
        witness.ONE_SENDER,
        witness.KNOWN_END,
        witness.SAME_OFFER,
        witness.TOO_MUCH,
    ]


def test_every_rule_that_a_declaration_can_break_is_broken_once() -> None:
    (examples,) = [block.text for block in PAGE.blocks if block.file == "rules.py"]
    for rule in (witness.ONE_SENDER, witness.KNOWN_END, witness.SAME_OFFER):
        assert f'== "{rule}"' in examples
