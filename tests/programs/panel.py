"""Two branches at once, and a step after both. URL KEY ROLE serves one role."""

import sys

import partyctl as ap

Author, Editor, Artist, Printer = ROLES = ap.roles("Author", "Editor", "Artist", "Printer")


class Text(ap.Message):
    """What was written."""

    text: str


class Note(ap.Message):
    """What is to be changed."""

    text: str


class Picture(ap.Message):
    """What was drawn."""

    name: str


class Proof(ap.Message):
    """How it looks in print."""

    name: str


class Ready(ap.Message):
    """Print it."""


protocol = ap.Protocol(
    ap.par(
        [ap.send(Author, Editor, Text), ap.send(Editor, Author, Note), ap.send(Author, Editor, Text)],
        [ap.send(Artist, Printer, Picture), ap.send(Printer, Artist, Proof), ap.send(Artist, Printer, Picture)],
    ),
    ap.send(Editor, Printer, Ready),
)


def agent(*answers: tuple[str, dict[str, str]]) -> ap.Agent:
    """An agent in a worker of its own that says these, one a turn."""
    script = [[{"think": 0.01}, {"say": {"label": label, "payload": payload}}] for label, payload in answers]
    permissions = ap.NativePermissions.bypass()
    return ap.Agent("scripted", permissions=permissions, approvals=ap.ApprovalPolicy.DENY, options={"script": script})


def draw(view: ap.View) -> Picture:
    """The first picture, then one that follows from its proof."""
    proof = view.last(Proof)
    return Picture("owl" if proof is None else f"{proof.name}, darker")


here: dict[ap.Role, ap.Participant] = {
    Author: agent(("Text", {"text": "They hoot."}), ("Text", {"text": "They hoot at night."})),
    Editor: agent(("Note", {"text": "When?"}), ("Ready", {})),
    Artist: ap.Policy(draw),
    Printer: ap.Script([Proof("owl in print")]),
}
"""Who plays each role, wherever that is."""

if __name__ == "__main__":
    url, key, name = sys.argv[1:]
    role = ap.Role(name)
    ap.serve(role, here[role], url=url, key=key, protocol=protocol)
