"""A session whose Support has a mistake in it."""

import partyctl as ap

Customer, Support = ap.roles("Customer", "Support")


class Ticket(ap.Message):
    text: str


class Resolution(ap.Message):
    text: str


def answer(offer: ap.Offer, heard: ap.Transcript) -> Resolution:
    known: dict[str, str] = {}
    return Resolution(known["missing"])


protocol = ap.Protocol(ap.send(Customer, Support, Ticket), ap.send(Support, Customer, Resolution))
session = ap.Session(protocol, {Customer: ap.Script([Ticket("parcel 7")]), Support: answer})
