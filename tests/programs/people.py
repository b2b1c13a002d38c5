"""Sessions with people: one at a desk that nobody minds, and one at a terminal."""

import partyctl as ap

Customer, Support = ap.roles("Customer", "Support")


class Ticket(ap.Message):
    text: str


class Resolution(ap.Message):
    text: str


protocol = ap.Protocol(ap.send(Customer, Support, Ticket), ap.send(Support, Customer, Resolution))
cast = {Customer: ap.Script([Ticket("parcel 7")])}
desk = ap.Session(protocol, {**cast, Support: ap.Human(ap.Desk())})
terminal = ap.Session(protocol, {**cast, Support: ap.Human(ap.Terminal())})
